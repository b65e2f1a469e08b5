//! `#[inferlet::tool]`: a function that a model may call, with the JSON Schema of its arguments.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Error, Expr, FnArg, ItemFn, Lit, Meta, Pat, Result, ReturnType, Type};

pub fn expand(arguments: TokenStream, mut function: ItemFn) -> Result<TokenStream> {
    if !arguments.is_empty() {
        return Err(Error::new_spanned(arguments, "#[inferlet::tool] takes no arguments"));
    }
    if !function.sig.generics.params.is_empty() {
        return Err(Error::new_spanned(&function.sig.generics, "a tool cannot be generic"));
    }
    let name = function.sig.ident.clone();
    let visibility = function.vis.clone();
    let description = description(&function.attrs);
    let docs: Vec<Attribute> = function
        .attrs
        .iter()
        .filter(|attribute| attribute.path().is_ident("doc"))
        .cloned()
        .collect();

    let mut fields = Vec::new();
    let mut passed = Vec::new();
    for argument in &mut function.sig.inputs {
        let FnArg::Typed(argument) = argument else {
            return Err(Error::new_spanned(argument, "a tool is a function: it has no `self`"));
        };
        let Pat::Ident(pattern) = &*argument.pat else {
            return Err(Error::new_spanned(&argument.pat, "name the argument"));
        };
        let (ident, kind) = (&pattern.ident, &argument.ty);
        // The doc comment of an argument describes it to the model, and is no part of the function.
        let attributes = std::mem::take(&mut argument.attrs);
        fields.push(quote!(#(#attributes)* #ident: #kind));
        passed.push(quote!(arguments.#ident));
    }

    let text = name.to_string();
    let call = quote!(Self::call_typed(#(#passed),*));
    let call = if function.sig.asyncness.is_some() { quote!(#call.await) } else { call };
    let call = if returns_result(&function.sig.output) {
        quote!(#call.map_err(|error| ::std::string::ToString::to_string(&error))?)
    } else {
        call
    };
    let mut typed = function;
    typed.sig.ident = syn::Ident::new("call_typed", name.span());
    typed.vis = syn::parse_quote!(pub);

    Ok(quote! {
        #(#docs)*
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy)]
        #visibility struct #name;

        const _: () = {
            #[derive(::inferlet::serde::Deserialize, ::inferlet::schemars::JsonSchema)]
            #[serde(crate = "::inferlet::serde", deny_unknown_fields)]
            #[schemars(crate = "::inferlet::schemars")]
            struct Arguments { #(#fields),* }

            impl #name {
                #typed

                /// Calls the tool with arguments in JSON. The answer is JSON too; a `String` is the text itself.
                #[allow(clippy::unused_async)]
                pub async fn call(arguments: &str) -> ::inferlet::Result<::std::string::String> {
                    let arguments: Arguments = ::inferlet::tools::arguments(#text, arguments)?;
                    let _ = &arguments;
                    ::inferlet::tools::answer(#call)
                }
            }

            impl ::inferlet::Tool for #name {
                fn name(&self) -> &str { #text }
                fn description(&self) -> &str { #description }
                fn schema(&self) -> ::std::string::String {
                    ::inferlet::tools::schema::<Arguments>(#text, #description)
                }
            }
        };
    })
}

/// The text of the doc comment.
fn description(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value().trim().to_string()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n").trim().to_string()
}

fn returns_result(output: &ReturnType) -> bool {
    let ReturnType::Type(_, kind) = output else { return false };
    let Type::Path(path) = &**kind else { return false };
    path.path.segments.last().is_some_and(|segment| segment.ident == "Result")
}
