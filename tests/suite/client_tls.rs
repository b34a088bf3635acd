//! TLS: trusted authorities, client certificates, and the error of each mismatch.

use std::net::SocketAddr;
use std::path::Path;

use nomad_csi_client::nomad::{ClientSettings, NomadClient, TlsSettings};
use nomad_csi_client::ports::{ApiError, VolumeApi as _, VolumeReader as _};
use nomad_csi_model::diagnostic::Code;

use crate::support::certificates::{Authority, Identity};
use crate::support::http_server::{Reply, Server, json, text};

struct TestDirectory {
    folder: tempfile::TempDir,
    authority: Authority,
}

impl TestDirectory {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            authority: Authority::new("test authority"),
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Settings that trust the authority.
    fn trusting(&self) -> TlsSettings {
        TlsSettings {
            ca_file: Some(self.authority.write(self.path(), "ca.pem")),
            ..TlsSettings::default()
        }
    }
}

async fn serving(identity: &Identity, clients: Option<&Authority>) -> Server {
    Server::with_tls(identity.config(clients), json("[]")).await
}

async fn list(address: &str, tls: TlsSettings) -> Result<(), ApiError> {
    let mut settings = ClientSettings::new(address);
    settings.tls = tls;
    let client = NomadClient::new(&settings).expect("the address is valid");
    client.list_plugins(None).await.map(drop)
}

fn https(address: SocketAddr) -> String {
    format!("https://{address}")
}

#[track_caller]
fn refused(result: Result<(), ApiError>, reason: &str, help: &str) {
    let error = result.expect_err("the connection is refused");
    assert_eq!(error.code, Code::ApiTls, "{error:?}");
    assert!(error.message.contains(reason), "{error:?}");
    assert!(error.help.join(" ").contains(help), "{error:?}");
}

#[tokio::test]
async fn an_authority_is_trusted_from_a_file_or_a_directory() {
    let ca_directory = TestDirectory::new();
    let server = serving(&ca_directory.authority.server(&["127.0.0.1"]), None).await;
    let address = https(server.address);
    list(&address, ca_directory.trusting()).await.expect("a CA file is enough");

    let folder = ca_directory.path().join("cas/below");
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    std::fs::write(ca_directory.path().join("cas/README"), "no certificate")
        .expect("it can be written");
    Authority::new("another").write(&ca_directory.path().join("cas"), "another.pem");
    ca_directory.authority.write(&folder, "ca.pem");
    let directory = TlsSettings {
        ca_directory: Some(ca_directory.path().join("cas")),
        ..TlsSettings::default()
    };
    list(&address, directory.clone()).await.expect("a CA directory is enough");

    let file_wins = TlsSettings {
        ca_file: Some(Authority::new("other").write(ca_directory.path(), "other.pem")),
        ..directory
    };
    refused(list(&address, file_wins).await, "is signed by an unknown authority", "NOMAD_CACERT");
}

/// Who may write one of these files chooses who gets the token.
#[cfg(unix)]
#[tokio::test]
async fn a_file_that_others_can_change_is_not_used() {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    let ca_directory = TestDirectory::new();
    let identity = ca_directory.authority.server(&["127.0.0.1"]);
    let server = serving(&identity, None).await;
    let address = https(server.address);
    let cas = ca_directory.path().join("cas");
    std::fs::create_dir(&cas).expect("the folder can be made");
    let in_directory = ca_directory.authority.write(&cas, "ca.pem");
    let ca = ca_directory.authority.write(ca_directory.path(), "ca.pem");
    let (certificate, key) = identity.write(ca_directory.path(), "client");
    let trusting = ca_directory.trusting();
    let settings = [
        (&ca, trusting.clone()),
        (&in_directory, TlsSettings { ca_directory: Some(cas.clone()), ..TlsSettings::default() }),
        (
            &certificate,
            TlsSettings {
                client_certificate: Some(certificate.clone()),
                client_key: Some(key.clone()),
                ..trusting.clone()
            },
        ),
    ];
    let is_root = rustix::process::geteuid().is_root();
    for (file, tls) in settings {
        let mode = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(file, permissions).expect("the mode can be set");
        };
        let why = async || {
            let listed = list(&address, tls.clone()).await;
            let error = listed.expect_err("the file is refused");
            assert_eq!(error.code, Code::ApiTlsFiles, "{error:?}");
            let name = file.display().to_string();
            assert!(error.message.contains(&name), "{error:?}");
            error.message
        };
        list(&address, tls.clone()).await.expect("the file is used");
        for writable in [0o666, 0o620] {
            mode(writable);
            let why = why().await;
            assert!(why.contains("writable by other users"), "{why}");
        }
        mode(0o644);
        if is_root {
            chown(file, Some(61_234), None).expect("the owner can be set");
            let why = why().await;
            assert!(why.contains("61234"), "{why}");
            chown(file, Some(0), None).expect("the owner can be set");
        }
        list(&address, tls).await.expect("the file is used");
    }
}

#[tokio::test]
async fn only_the_systems_authorities_are_trusted_by_default() {
    let ca_directory = TestDirectory::new();
    let server = serving(&ca_directory.authority.server(&["127.0.0.1"]), None).await;
    let result = list(&https(server.address), TlsSettings::default()).await;
    refused(result, "is signed by an unknown authority", "--ca-cert");
    let skip = TlsSettings { skip_verify: true, ..TlsSettings::default() };
    list(&https(server.address), skip).await.expect("no certificate is verified");
}

/// Go's TLS, which Nomad's own tools use, does the same.
#[tokio::test]
async fn a_self_signed_certificate_can_be_trusted() {
    let ca_directory = TestDirectory::new();
    let identity = Identity::self_signed_authority(&["127.0.0.1"], 4000);
    let named = |identity: &Identity, name: &str| TlsSettings {
        ca_file: Some(identity.write(ca_directory.path(), name).0),
        ..TlsSettings::default()
    };
    let server = serving(&identity, None).await;
    let address = https(server.address);
    list(&address, named(&identity, "own")).await.expect("the certificate itself is trusted");
    let directory = TlsSettings {
        ca_directory: Some(ca_directory.path().to_owned()),
        ..TlsSettings::default()
    };
    list(&address, directory).await.expect("the directory contains the certificate");
    refused(list(&address, ca_directory.trusting()).await, "(CA:TRUE)", "trust this certificate");
    let other_name =
        TlsSettings { server_name: Some("server.global.nomad".into()), ..named(&identity, "own") };
    refused(list(&address, other_name).await, "is valid only for", "--tls-server-name");

    let expired = Identity::self_signed_authority(&["127.0.0.1"], 2001);
    let server = serving(&expired, None).await;
    let result = list(&https(server.address), named(&expired, "expired")).await;
    refused(result, "has expired", "renew");
}

#[tokio::test]
async fn a_new_authority_with_the_old_name_is_reported() {
    let ca_directory = TestDirectory::new();
    let server = serving(&Authority::new("test authority").server(&["127.0.0.1"]), None).await;
    let result = list(&https(server.address), ca_directory.trusting()).await;
    refused(result, "does not match its authority", "a new CA may have the old name");
}

/// The name is sent to the server (SNI) and checked. Requests still go to the address's host.
#[tokio::test]
async fn a_server_name_replaces_the_host_in_sni_and_checks() {
    let ca_directory = TestDirectory::new();
    let identity = ca_directory.authority.server(&["server.global.nomad"]);
    let mut config = identity.config(None);
    let names = std::sync::Arc::new(std::sync::Mutex::new(vec![]));
    config.cert_resolver = std::sync::Arc::new(RecordingResolver {
        inner: config.cert_resolver.clone(),
        asked: names.clone(),
    });
    let server = Server::with_tls(config, json("[]")).await;
    let address = https(server.address);
    let result = list(&address, ca_directory.trusting()).await;
    refused(result, "is valid only for `server.global.nomad`", "NOMAD_TLS_SERVER_NAME");

    let named =
        |name: &str| TlsSettings { server_name: Some(name.into()), ..ca_directory.trusting() };
    list(&address, named("server.global.nomad")).await.expect("the name matches");
    let by_name = format!("https://localhost:{}", server.address.port());
    list(&by_name, named("server.global.nomad")).await.expect("the name matches");
    let result = list(&address, named("client.global.nomad")).await;
    refused(result, "is valid only for `server.global.nomad`", "");
    let asked = names.lock().expect("no server panics").clone();
    let global = |role: &str| Some(format!("{role}.global.nomad"));
    assert_eq!(asked, [None, global("server"), global("server"), global("client")]);
    let hosts = server.requests();
    let hosts: Vec<_> = hosts.iter().filter_map(|seen| seen.header("host")).collect();
    assert_eq!(hosts, [&address[8..], &by_name[8..]]);
}

/// Records the names that clients request.
#[derive(Debug)]
struct RecordingResolver {
    inner: std::sync::Arc<dyn rustls::server::ResolvesServerCert>,
    asked: std::sync::Arc<std::sync::Mutex<Vec<Option<String>>>>,
}

impl rustls::server::ResolvesServerCert for RecordingResolver {
    fn resolve(
        &self,
        hello: rustls::server::ClientHello<'_>,
    ) -> Option<std::sync::Arc<rustls::sign::CertifiedKey>> {
        let name = hello.server_name().map(str::to_owned);
        self.asked.lock().expect("no server panics").push(name);
        self.inner.resolve(hello)
    }
}

#[tokio::test]
async fn a_server_name_can_be_an_ip_address() {
    let ca_directory = TestDirectory::new();
    let server = serving(&ca_directory.authority.server(&["10.0.0.1"]), None).await;
    let named =
        |name: &str| TlsSettings { server_name: Some(name.into()), ..ca_directory.trusting() };
    let address = https(server.address);
    list(&address, named("10.0.0.1")).await.expect("the address matches");
    refused(list(&address, named("10.0.0.2")).await, "is valid only for `10.0.0.1`", "");
}

#[tokio::test]
async fn a_client_certificate_is_sent_on_request() {
    let ca_directory = TestDirectory::new();
    let (clients, untrusted_clients) =
        (Authority::new("clients"), Authority::new("untrusted_clients"));
    let server = serving(&ca_directory.authority.server(&["127.0.0.1"]), Some(&clients)).await;
    let address = https(server.address);
    let with = |identity: &Identity, name: &str| {
        let (certificate, key) = identity.write(ca_directory.path(), name);
        TlsSettings {
            client_certificate: Some(certificate),
            client_key: Some(key),
            ..ca_directory.trusting()
        }
    };
    list(&address, with(&clients.client(), "client")).await.expect("the certificate is accepted");
    let result = list(&address, ca_directory.trusting()).await;
    refused(result, "requires a client certificate", "NOMAD_CLIENT_CERT");
    let result = list(&address, with(&untrusted_clients.client(), "stranger")).await;
    refused(result, "rejected the client certificate", "");
    assert_eq!(server.requests().len(), 1);
}

/// In TLS 1.3 the client may send before the server refuses the handshake. The request has no
/// effect.
#[tokio::test]
async fn a_write_without_the_client_certificate_has_no_effect() {
    let ca_directory = TestDirectory::new();
    let clients = Authority::new("clients");
    let server = serving(&ca_directory.authority.server(&["127.0.0.1"]), Some(&clients)).await;
    let mut settings = ClientSettings::new(https(server.address));
    settings.tls = ca_directory.trusting();
    let client = NomadClient::new(&settings).expect("the address is valid");
    let created = client.create_volume(&crate::client_requests::request("db0")).await;
    let error = created.expect_err("the connection is refused");
    assert_eq!(error.code, Code::ApiTls);
    assert!(error.message.starts_with("cannot create volume "), "{}", error.message);
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let ca_directory = TestDirectory::new();
    let server = serving(&ca_directory.authority.expired(&["127.0.0.1"]), None).await;
    let result = list(&https(server.address), ca_directory.trusting()).await;
    refused(result, "has expired", "clock");
}

#[tokio::test]
async fn http_and_https_mismatches_are_reported() {
    let ca_directory = TestDirectory::new();
    // `https` to an HTTP server that responds to what it cannot read.
    let bad = b"HTTP/1.0 400 Bad Request\r\n\r\n".to_vec();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("the listener has an address");
    let http_server = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (mut stream, _) = listener.accept().await.expect("it accepts");
        let mut hello = [0; 5];
        stream.read_exact(&mut hello).await.expect("a hello");
        stream.write_all(&bad).await.expect("the client reads");
        // Reads until the client closes the connection; otherwise the response could be lost.
        let _rest = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    });
    let result = list(&https(address), ca_directory.trusting()).await;
    refused(result, "does not use TLS", "use `http://` in the address");
    http_server.await.expect("it served");

    // `https` to a server that closes the connection.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("the listener has an address");
    let closing_server = tokio::spawn(async move {
        loop {
            drop(listener.accept().await);
        }
    });
    let error = list(&https(address), ca_directory.trusting())
        .await
        .expect_err("the server closes the connection");
    assert_eq!(error.code, Code::ApiConnectionLost, "{error:?}");
    assert_eq!(error.help, ["use `http://` if the server does not use TLS"]);
    closing_server.abort();

    // `http` to Go's TLS server.
    let go = Server::always(text(400, "Client sent an HTTP request to an HTTPS server.\n")).await;
    let result = list(&go.url(), TlsSettings::default()).await;
    refused(result, "requires TLS, but the address uses `http`", "use `https://`");

    // `http` to another TLS server, which sends an alert.
    let alert = Server::always(Reply::Bytes(b"\x15\x03\x01\x00\x02\x02\x16".to_vec())).await;
    let error =
        list(&alert.url(), TlsSettings::default()).await.expect_err("the response is not HTTP");
    assert_eq!(error.code, Code::ApiNotNomad);
    assert_eq!(error.help, ["use `https://` in the address if the server uses TLS"]);
}

/// Asserts the error of unusable settings, which the client reports before it connects.
async fn assert_unusable(tls: TlsSettings, name: &str, why: &str) {
    let error = list("https://127.0.0.1:1", tls).await.expect_err(name);
    assert_eq!(error.code, Code::ApiTlsFiles, "{error:?}");
    assert!(error.message.starts_with("cannot list the plugins: "), "{error:?}");
    assert!(error.message.contains(name) && error.message.contains(why), "{error:?}");
}

#[tokio::test]
async fn unusable_authorities_are_named() {
    let ca_directory = TestDirectory::new();
    let empty = ca_directory.path().join("empty.pem");
    std::fs::write(&empty, "").expect("it can be written");
    let none = ca_directory.path().join("none");
    std::fs::create_dir(&none).expect("it can be made");
    let file =
        |path: &Path| TlsSettings { ca_file: Some(path.to_owned()), ..TlsSettings::default() };
    let directory =
        |path: &Path| TlsSettings { ca_directory: Some(path.to_owned()), ..TlsSettings::default() };
    let missing = Path::new("/nonexistent");
    assert_unusable(file(&empty), "empty.pem", "no PEM certificate").await;
    assert_unusable(file(missing), "/nonexistent", "No such file").await;
    assert_unusable(directory(&none), "none", "the directory contains no certificate").await;
    assert_unusable(directory(missing), "/nonexistent", "No such file").await;
}

#[tokio::test]
async fn unusable_client_certificates_are_named() {
    let ca_directory = TestDirectory::new();
    let (certificate, key) = ca_directory.authority.client().write(ca_directory.path(), "client");
    let (_, other) = ca_directory.authority.client().write(ca_directory.path(), "other");
    let file = |name: &str, text: &str| {
        let path = ca_directory.path().join(name);
        std::fs::write(&path, text).expect("it can be written");
        path
    };
    let empty = file("empty.pem", "");
    let sealed =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let sealed = file("sealed.pem", sealed);
    let certificate = Some(certificate);
    for (certificate, key, name, why) in [
        (None, Some(key), "client-key.pem", "the certificate is missing"),
        (certificate.clone(), None, "client.pem", "the key is missing"),
        (certificate.clone(), Some(empty), "empty.pem", "no PEM private key"),
        (certificate.clone(), Some(sealed), "sealed.pem", "is encrypted"),
        (certificate, Some(other), "other-key.pem", "it is not the key of the client certificate"),
    ] {
        let tls = TlsSettings {
            client_certificate: certificate,
            client_key: key,
            ..TlsSettings::default()
        };
        assert_unusable(tls, name, why).await;
    }
}

/// Without TLS, the client reads no certificate.
#[tokio::test]
async fn no_certificate_is_read_without_tls() {
    let server = Server::always(json("[]")).await;
    let tls = TlsSettings { ca_file: Some("/nonexistent".into()), ..TlsSettings::default() };
    list(&server.url(), tls).await.expect("the list succeeds");
}
