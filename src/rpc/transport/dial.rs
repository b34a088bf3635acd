//! Opening a connection to a server.

use std::io;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::tls::cluster_tls::ClusterTls;
use crate::tls::role::Role;

/// Opens a connection to a server for one protocol.
pub(crate) async fn dial(
    tls: &ClusterTls,
    server: &str,
    protocol: &[u8],
) -> io::Result<TlsStream<TcpStream>> {
    let name = Role::Server.server_name(tls.region()).ok_or(io::ErrorKind::InvalidInput)?;
    let tcp = TcpStream::connect(server).await?;
    tcp.set_nodelay(true)?;
    let stream = TlsConnector::from(tls.client(protocol)).connect(name, tcp).await?;
    // A server that does not speak the protocol would read what follows as a request.
    if stream.get_ref().1.alpn_protocol() != Some(protocol) {
        return Err(io::Error::other("the server does not speak the protocol of a cluster"));
    }
    Ok(stream)
}
