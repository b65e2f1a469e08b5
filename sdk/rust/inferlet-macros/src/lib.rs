//! `#[inferlet::main]` turns an `async fn` into the export that the engine calls; `#[inferlet::tool]` turns a function
//! into a tool that a model may call.

use proc_macro::TokenStream;
use quote::{format_ident, quote};
use syn::{parse_macro_input, ItemFn, ReturnType};

mod package;
mod tool;

/// Marks the function that the engine runs.
///
/// ```ignore
/// #[inferlet::main]
/// async fn main(input: Input) -> inferlet::Result<Output> { /* … */ }
/// ```
///
/// The input is parsed from JSON and the output written as JSON; a `String` on either side passes through
/// untouched, an empty input stands for `{}`, and `()` is returned as the empty text. The component exports `pie:<package-name>/run`, where the name is `[package].name` of the
/// `Pie.toml` beside `Cargo.toml`, or the crate's own name where there is no such file.
#[proc_macro_attribute]
pub fn main(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let function = parse_macro_input!(item as ItemFn);
    expand(arguments.into(), function).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Marks the function that answers HTTP requests. Each request gets an instance of its own.
///
/// ```ignore
/// #[inferlet::http_handler]
/// async fn serve(request: http::Request, respond: http::Responder) -> inferlet::Result<()> {
///     respond.header("content-type", "text/plain").send("hello").await
/// }
/// ```
#[proc_macro_attribute]
pub fn http(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let function = parse_macro_input!(item as ItemFn);
    if !arguments.is_empty() {
        let text = "#[inferlet::http_handler] takes no arguments";
        let arguments = proc_macro2::TokenStream::from(arguments);
        return syn::Error::new_spanned(arguments, text).into_compile_error().into();
    }
    let name = &function.sig.ident;
    quote! {
        #function

        #[doc(hidden)]
        mod __inferlet_http {
            use ::inferlet::http::bindings::exports::wasi::http::incoming_handler;
            struct Entry;
            impl incoming_handler::Guest for Entry {
                fn handle(
                    request: incoming_handler::IncomingRequest,
                    response_out: incoming_handler::ResponseOutparam,
                ) {
                    ::inferlet::http::answer(request, response_out, super::#name)
                }
            }
            ::inferlet::http::bindings::export_http!(Entry with_types_in ::inferlet::http::bindings);
        }
    }
    .into()
}

/// Makes a tool of a function: a value of its name, which implements [`Tool`](../inferlet/trait.Tool.html), with
/// `NAME::call(&str)`, which takes the arguments in JSON, and `NAME::call_typed(…)`, which is the function itself.
///
/// ```ignore
/// /// Tells the weather in a city.
/// #[inferlet::tool]
/// async fn weather(city: String, days: u8) -> inferlet::Result<String> { /* … */ }
///
/// ctx.equip(&[&weather])?;
/// let answer = weather::call(r#"{"city": "Bath", "days": 2}"#).await?;
/// ```
///
/// The doc comment describes the tool to the model, and the doc comments of arguments describe those.
#[proc_macro_attribute]
pub fn tool(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let function = parse_macro_input!(item as ItemFn);
    tool::expand(arguments.into(), function).unwrap_or_else(syn::Error::into_compile_error).into()
}

fn expand(
    arguments: proc_macro2::TokenStream,
    function: ItemFn,
) -> syn::Result<proc_macro2::TokenStream> {
    if !arguments.is_empty() {
        return Err(syn::Error::new_spanned(arguments, "#[inferlet::main] takes no arguments"));
    }
    let signature = &function.sig;
    if !signature.generics.params.is_empty() {
        return Err(syn::Error::new_spanned(
            &signature.generics,
            "the entry point cannot be generic: name the type of its input",
        ));
    }
    if let ReturnType::Default = signature.output {
        return Err(syn::Error::new_spanned(
            signature,
            "the entry point must return `inferlet::Result<…>`",
        ));
    }
    let name = &signature.ident;
    let run = match (signature.inputs.len(), signature.asyncness.is_some()) {
        (1, true) => quote!(::inferlet::entry::run(input, super::#name)),
        (1, false) => quote!(::inferlet::entry::run(input, |i| async move { super::#name(i) })),
        (0, true) => {
            quote!(::inferlet::entry::run(input, |_: ::std::string::String| super::#name()))
        }
        (0, false) => {
            quote!(::inferlet::entry::run(input, |_: ::std::string::String| async { super::#name() }))
        }
        _ => {
            return Err(syn::Error::new_spanned(
                &signature.inputs,
                "the entry point takes one input: put several values into a struct",
            ))
        }
    };

    let package = package::find().map_err(|text| syn::Error::new_spanned(name, text))?;
    let rust_package = format_ident!("r#{}", package.name.replace('-', "_"));
    let world = format!(
        "package pie:%{name};\n\
         interface run {{ run: func(input: string) -> result<string, string>; }}\n\
         world inferlet {{ export run; }}",
        name = package.name
    );
    // Names the manifest as an input of this crate, so that a changed name rebuilds it.
    let depends_on = package.manifest.map(|path| {
        quote!(
            const _: &[u8] = include_bytes!(#path);
        )
    });

    Ok(quote! {
        #function

        #[doc(hidden)]
        mod __inferlet_entry {
            #depends_on
            ::inferlet::wit_bindgen::generate!({
                inline: #world,
                runtime_path: "::inferlet::wit_bindgen::rt",
            });
            struct Entry;
            impl exports::pie::#rust_package::run::Guest for Entry {
                fn run(
                    input: ::std::string::String,
                ) -> ::core::result::Result<::std::string::String, ::std::string::String> {
                    #run
                }
            }
            export!(Entry);
        }
    })
}
