//! Accepts certificates of the public authorities, or of one that the options name. A proof of the
//! user is bound to the certificate.

use crate::error::{Error, Result};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{pem::PemObject, CertificateDer};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_tungstenite::{Connector, MaybeTlsStream};

/// A challenge with this prefix may be signed together with the hash of the server's certificate.
const BINDS: &[u8] = b"PIE-BIND";

/// Returns what to sign for a challenge. Another server that passes the challenge on cannot use a proof that names the
/// certificate.
pub fn bound(mut challenge: Vec<u8>, certificate_hash: &[u8]) -> Vec<u8> {
    if challenge.starts_with(BINDS) {
        challenge.extend_from_slice(certificate_hash);
    }
    challenge
}

pub fn certificate_hash(stream: &MaybeTlsStream<TcpStream>) -> Vec<u8> {
    let MaybeTlsStream::Rustls(stream) = stream else {
        return Vec::new();
    };
    let Some([certificate, ..]) = stream.get_ref().1.peer_certificates() else {
        return Vec::new();
    };
    ring::digest::digest(&ring::digest::SHA256, certificate).as_ref().to_vec()
}

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
