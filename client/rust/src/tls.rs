//! Accepts certificates of the public authorities, or of one that the options name.

use crate::error::{Error, Result};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{pem::PemObject, CertificateDer};
use std::sync::Arc;
use tokio_tungstenite::Connector;

pub fn connector(ca: Option<&str>) -> Result<Connector> {
    let mut roots = RootCertStore::empty();
    match ca {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                let bad =
                    |e: String| Error::Io(format!("cannot use the authority's certificate: {e}"));
                let certificate = certificate.map_err(|e| bad(e.to_string()))?;
                roots.add(certificate).map_err(|e| bad(e.to_string()))?;
            }
        }
    }
    let config =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::Io(e.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
    Ok(Connector::Rustls(Arc::new(config)))
}
