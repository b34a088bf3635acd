//! Connections of nodes that a server forwards to the one that leads.
//!
//! A server that does not lead ends TLS, so it sends the certificate of the node first: the length in two bytes, big endian,
//! and the certificate. Then it copies bytes both ways, and understands none of them. So a call is made once, a node that
//! cannot reach the leader is reached through the server that it is connected to, and nothing is forwarded twice: only a
//! leader takes such a connection.

use std::io;

use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The longest certificate.
const MAX_CERTIFICATE: usize = 16 << 10;

/// Says which certificate the node of a connection has.
pub(crate) async fn write_certificate<S: AsyncWrite + Unpin>(
    stream: &mut S,
    certificate: &CertificateDer<'_>,
) -> io::Result<()> {
    let length = u16::try_from(certificate.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    stream.write_u16(length).await?;
    stream.write_all(certificate).await?;
    stream.flush().await
}

/// Reads which certificate the node of a connection has.
pub(crate) async fn read_certificate<S: AsyncRead + Unpin>(
    stream: &mut S,
) -> io::Result<CertificateDer<'static>> {
    let length = usize::from(stream.read_u16().await?);
    if length > MAX_CERTIFICATE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut certificate = vec![0; length];
    stream.read_exact(&mut certificate).await?;
    Ok(certificate.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_certificate_arrives_as_it_was_sent_and_a_long_one_is_refused() {
        let (mut near, mut far) = tokio::io::duplex(64 << 10);
        for length in [0, 1, 1_500, MAX_CERTIFICATE] {
            let sent = CertificateDer::from(vec![7; length]);
            write_certificate(&mut near, &sent).await.unwrap();
            assert_eq!(read_certificate(&mut far).await.unwrap(), sent, "{length}");
        }
        let long = CertificateDer::from(vec![7; MAX_CERTIFICATE + 1]);
        write_certificate(&mut near, &long).await.unwrap();
        let refused = read_certificate(&mut far).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        let longer = CertificateDer::from(vec![7; usize::from(u16::MAX) + 1]);
        assert!(write_certificate(&mut near, &longer).await.is_err());
    }
}
