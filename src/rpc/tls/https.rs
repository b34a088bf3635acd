//! The certificate of the HTTP API: a client checks it, and needs none itself.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use super::cluster_tls::{read_certificates, read_key, unusable_key};
use super::provider::provider;
use super::tls_error::TlsError;

/// The files of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpsFiles {
    /// The certificate, and those between it and an authority.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Accepts connections with TLS 1.2 or 1.3. Clones are cheap.
#[derive(Clone)]
pub struct HttpsAcceptor(TlsAcceptor);

impl std::fmt::Debug for HttpsAcceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpsAcceptor").finish_non_exhaustive()
    }
}

impl HttpsAcceptor {
    /// Reads the files. Blocks.
    ///
    /// # Errors
    /// If a file cannot be read or is not private, or the key is not that of the certificate.
    pub fn load(files: &HttpsFiles) -> Result<Self, TlsError> {
        let chain = read_certificates(&files.certificate)?;
        let key = read_key(&files.key)?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
        let mut config =
            config.map_err(|error| unusable_key(&files.certificate, &files.key, &error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Completes the handshake of a connection.
    ///
    /// # Errors
    /// If the client does not speak TLS, or does not believe the certificate.
    pub async fn accept<S>(
        &self,
        stream: S,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Unpin + Send + use<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.0.accept(stream).await
    }
}
