//! TLS: whom the client trusts, who it is, and what it says of each mismatch.

use std::net::SocketAddr;
use std::path::Path;

use nomad_csi::diagnostic::Code;
use nomad_csi::nomad::{NomadClient, Settings, TlsSettings};
use nomad_csi::ports::{ApiError, VolumeApi as _, VolumeReader as _};

use crate::support::certificates::{Authority, Identity};
use crate::support::http_server::{Answer, Server, json, text};

struct Place {
    folder: tempfile::TempDir,
    authority: Authority,
}

impl Place {
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
    Server::secure(identity.config(clients), json("[]")).await
}

async fn list(address: &str, tls: TlsSettings) -> Result<(), ApiError> {
    let mut settings = Settings::new(address);
    settings.tls = tls;
    let client = NomadClient::new(&settings).expect("the address is one");
    client.list_plugins(None).await.map(drop)
}

fn https(address: SocketAddr) -> String {
    format!("https://{address}")
}

#[track_caller]
fn refused(result: Result<(), ApiError>, says: &str, help: &str) {
    let error = result.expect_err("it is refused");
    assert_eq!(error.code, Code::ApiTls, "{error:?}");
    assert!(error.message.contains(says), "{error:?}");
    assert!(error.help.join(" ").contains(help), "{error:?}");
}

#[tokio::test]
async fn an_authority_is_trusted_from_a_file_or_a_directory() {
    let place = Place::new();
    let server = serving(&place.authority.server(&["127.0.0.1"]), None).await;
    let address = https(server.address);
    list(&address, place.trusting())
        .await
        .expect("a CA file is enough");

    let folder = place.path().join("cas/below");
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    std::fs::write(place.path().join("cas/README"), "no certificate").expect("it can be written");
    Authority::new("another").write(&place.path().join("cas"), "another.pem");
    place.authority.write(&folder, "ca.pem");
    let directory = TlsSettings {
        ca_directory: Some(place.path().join("cas")),
        ..TlsSettings::default()
    };
    list(&address, directory.clone())
        .await
        .expect("a CA directory is enough");

    let file_wins = TlsSettings {
        ca_file: Some(Authority::new("other").write(place.path(), "other.pem")),
        ..directory
    };
    refused(
        list(&address, file_wins).await,
        "authority that is not trusted here",
        "NOMAD_CACERT",
    );
}

#[tokio::test]
async fn by_default_the_systems_authorities_are_trusted_and_no_others() {
    let place = Place::new();
    let server = serving(&place.authority.server(&["127.0.0.1"]), None).await;
    let result = list(&https(server.address), TlsSettings::default()).await;
    refused(
        result,
        "signed by an authority that is not trusted here",
        "--ca-cert",
    );
    let skip = TlsSettings {
        skip_verify: true,
        ..TlsSettings::default()
    };
    list(&https(server.address), skip)
        .await
        .expect("nothing is verified");
}

/// As by Go's TLS, which Nomad's own tools are written with.
#[tokio::test]
async fn a_certificate_that_signs_itself_is_believed_if_it_is_named_itself() {
    let place = Place::new();
    let identity = Identity::self_signed_authority(&["127.0.0.1"], 4000);
    let named = |identity: &Identity, name: &str| TlsSettings {
        ca_file: Some(identity.write(place.path(), name).0),
        ..TlsSettings::default()
    };
    let server = serving(&identity, None).await;
    let address = https(server.address);
    list(&address, named(&identity, "own"))
        .await
        .expect("it is this very certificate");
    let directory = TlsSettings {
        ca_directory: Some(place.path().to_owned()),
        ..TlsSettings::default()
    };
    list(&address, directory)
        .await
        .expect("it is in the directory");
    refused(
        list(&address, place.trusting()).await,
        "(CA:TRUE)",
        "name this very certificate",
    );
    let other_name = TlsSettings {
        server_name: Some("server.global.nomad".into()),
        ..named(&identity, "own")
    };
    refused(
        list(&address, other_name).await,
        "is for",
        "--tls-server-name",
    );

    let expired = Identity::self_signed_authority(&["127.0.0.1"], 2001);
    let server = serving(&expired, None).await;
    let result = list(&https(server.address), named(&expired, "expired")).await;
    refused(result, "has expired", "Renew it");
}

#[tokio::test]
async fn an_authority_that_was_made_anew_under_its_name_is_told() {
    let place = Place::new();
    let server = serving(
        &Authority::new("test authority").server(&["127.0.0.1"]),
        None,
    )
    .await;
    let result = list(&https(server.address), place.trusting()).await;
    refused(
        result,
        "not signed by the authority whose name it bears",
        "made anew",
    );
}

/// The name is sent to the server (SNI) and checked; requests still go to the address's host.
#[tokio::test]
async fn a_server_name_is_sent_and_checked_in_place_of_the_host() {
    let place = Place::new();
    let identity = place.authority.server(&["server.global.nomad"]);
    let mut config = identity.config(None);
    let names = std::sync::Arc::new(std::sync::Mutex::new(vec![]));
    config.cert_resolver = std::sync::Arc::new(Names {
        inner: config.cert_resolver.clone(),
        asked: names.clone(),
    });
    let server = Server::secure(config, json("[]")).await;
    let address = https(server.address);
    let result = list(&address, place.trusting()).await;
    refused(
        result,
        "is for other names: server.global.nomad",
        "NOMAD_TLS_SERVER_NAME",
    );

    let named = |name: &str| TlsSettings {
        server_name: Some(name.into()),
        ..place.trusting()
    };
    list(&address, named("server.global.nomad"))
        .await
        .expect("the name is right");
    let by_name = format!("https://localhost:{}", server.address.port());
    list(&by_name, named("server.global.nomad"))
        .await
        .expect("the name is right");
    let result = list(&address, named("client.global.nomad")).await;
    refused(result, "is for other names: server.global.nomad", "");
    let asked = names.lock().expect("no server panics").clone();
    let global = |who: &str| Some(format!("{who}.global.nomad"));
    assert_eq!(
        asked,
        [None, global("server"), global("server"), global("client")]
    );
    let hosts = server.seen();
    let hosts: Vec<_> = hosts
        .iter()
        .filter_map(|seen| seen.header("host"))
        .collect();
    assert_eq!(hosts, [&address[8..], &by_name[8..]]);
}

/// Remembers which names clients ask for.
#[derive(Debug)]
struct Names {
    inner: std::sync::Arc<dyn rustls::server::ResolvesServerCert>,
    asked: std::sync::Arc<std::sync::Mutex<Vec<Option<String>>>>,
}

impl rustls::server::ResolvesServerCert for Names {
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
async fn a_server_name_may_be_an_address() {
    let place = Place::new();
    let server = serving(&place.authority.server(&["10.0.0.1"]), None).await;
    let named = |name: &str| TlsSettings {
        server_name: Some(name.into()),
        ..place.trusting()
    };
    let address = https(server.address);
    list(&address, named("10.0.0.1"))
        .await
        .expect("the address is right");
    refused(
        list(&address, named("10.0.0.2")).await,
        "is for other names: 10.0.0.1",
        "",
    );
}

#[tokio::test]
async fn a_client_certificate_is_shown_to_who_asks() {
    let place = Place::new();
    let (clients, strangers) = (Authority::new("clients"), Authority::new("strangers"));
    let server = serving(&place.authority.server(&["127.0.0.1"]), Some(&clients)).await;
    let address = https(server.address);
    let with = |identity: &Identity, name: &str| {
        let (certificate, key) = identity.write(place.path(), name);
        TlsSettings {
            client_certificate: Some(certificate),
            client_key: Some(key),
            ..place.trusting()
        }
    };
    list(&address, with(&clients.client(), "client"))
        .await
        .expect("it is known");
    let result = list(&address, place.trusting()).await;
    refused(result, "wants a client certificate", "NOMAD_CLIENT_CERT");
    let result = list(&address, with(&strangers.client(), "stranger")).await;
    refused(result, "does not accept the client certificate", "");
    assert_eq!(server.seen().len(), 1);
}

/// In TLS 1.3 the client may send before it is refused; a refused handshake did nothing all the same.
#[tokio::test]
async fn a_write_without_the_client_certificate_did_not_happen() {
    let place = Place::new();
    let clients = Authority::new("clients");
    let server = serving(&place.authority.server(&["127.0.0.1"]), Some(&clients)).await;
    let mut settings = Settings::new(https(server.address));
    settings.tls = place.trusting();
    let client = NomadClient::new(&settings).expect("the address is one");
    let created = client
        .create_volume(&crate::client_requests::request("db0"))
        .await;
    let error = created.expect_err("it is refused");
    assert_eq!(error.code, Code::ApiTls);
    assert!(
        error.message.contains("was not created: "),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let place = Place::new();
    let server = serving(&place.authority.expired(&["127.0.0.1"]), None).await;
    let result = list(&https(server.address), place.trusting()).await;
    refused(result, "has expired", "clock");
}

#[tokio::test]
async fn http_and_https_are_not_confused_silently() {
    let place = Place::new();
    // `https` to a server that speaks HTTP, which answers what it does not understand.
    let bad = b"HTTP/1.0 400 Bad Request\r\n\r\n".to_vec();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port");
    let address = listener.local_addr().expect("it listens");
    let speaks_http = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (mut stream, _) = listener.accept().await.expect("it accepts");
        let mut hello = [0; 5];
        stream.read_exact(&mut hello).await.expect("a hello");
        stream.write_all(&bad).await.expect("the client reads");
        // Reads on until the client leaves, so that the answer is not lost.
        let _rest = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    });
    let result = list(&https(address), place.trusting()).await;
    refused(
        result,
        "does not speak TLS",
        "Write `http://` in the address.",
    );
    speaks_http.await.expect("it served");

    // `https` to a server that hangs up on what it does not understand.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port");
    let address = listener.local_addr().expect("it listens");
    let hangs_up = tokio::spawn(async move {
        loop {
            drop(listener.accept().await);
        }
    });
    let error = list(&https(address), place.trusting())
        .await
        .expect_err("it hangs up");
    assert_eq!(error.code, Code::ApiConnectionLost, "{error:?}");
    assert_eq!(error.help, ["If it does not speak TLS, write `http://`."]);
    hangs_up.abort();

    // `http` to Go's TLS server.
    let go = Server::always(text(
        400,
        "Client sent an HTTP request to an HTTPS server.\n",
    ))
    .await;
    let result = list(&go.url(), TlsSettings::default()).await;
    refused(
        result,
        "wants TLS, and the address says `http`",
        "Write `https://`",
    );

    // `http` to another TLS server, which answers with an alert.
    let alert = Server::always(Answer::Bytes(b"\x15\x03\x01\x00\x02\x02\x16".to_vec())).await;
    let error = list(&alert.url(), TlsSettings::default())
        .await
        .expect_err("it is not HTTP");
    assert_eq!(error.code, Code::ApiNotNomad);
    assert_eq!(
        error.help,
        ["If it speaks TLS, write `https://` in the address."]
    );
}

/// What is said of settings that cannot be used, before anything is opened.
async fn unusable(tls: TlsSettings, name: &str, why: &str) {
    let error = list("https://127.0.0.1:1", tls).await.expect_err(name);
    assert_eq!(error.code, Code::ApiTlsFiles, "{error:?}");
    assert!(
        error
            .message
            .starts_with("the plugins could not be listed: "),
        "{error:?}"
    );
    assert!(
        error.message.contains(name) && error.message.contains(why),
        "{error:?}"
    );
}

#[tokio::test]
async fn authorities_that_cannot_be_used_are_named() {
    let place = Place::new();
    let empty = place.path().join("empty.pem");
    std::fs::write(&empty, "").expect("it can be written");
    let none = place.path().join("none");
    std::fs::create_dir(&none).expect("it can be made");
    let file = |path: &Path| TlsSettings {
        ca_file: Some(path.to_owned()),
        ..TlsSettings::default()
    };
    let directory = |path: &Path| TlsSettings {
        ca_directory: Some(path.to_owned()),
        ..TlsSettings::default()
    };
    let missing = Path::new("/nonexistent");
    unusable(file(&empty), "empty.pem", "no PEM certificate").await;
    unusable(file(missing), "/nonexistent", "No such file").await;
    unusable(
        directory(&none),
        "none",
        "no file in it holds a certificate",
    )
    .await;
    unusable(directory(missing), "/nonexistent", "No such file").await;
}

#[tokio::test]
async fn client_certificates_that_cannot_be_used_are_named() {
    let place = Place::new();
    let (certificate, key) = place.authority.client().write(place.path(), "client");
    let (_, other) = place.authority.client().write(place.path(), "other");
    let file = |name: &str, text: &str| {
        let path = place.path().join(name);
        std::fs::write(&path, text).expect("it can be written");
        path
    };
    let empty = file("empty.pem", "");
    let sealed =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let sealed = file("sealed.pem", sealed);
    let certificate = Some(certificate);
    for (certificate, key, name, why) in [
        (
            None,
            Some(key),
            "client-key.pem",
            "both are needed or neither",
        ),
        (
            certificate.clone(),
            None,
            "client.pem",
            "both are needed or neither",
        ),
        (
            certificate.clone(),
            Some(empty),
            "empty.pem",
            "no PEM private key",
        ),
        (
            certificate.clone(),
            Some(sealed),
            "sealed.pem",
            "is encrypted",
        ),
        (certificate, Some(other), "other-key.pem", ""),
    ] {
        let tls = TlsSettings {
            client_certificate: certificate,
            client_key: key,
            ..TlsSettings::default()
        };
        unusable(tls, name, why).await;
    }
}

/// Without TLS no file matters, so none is read.
#[tokio::test]
async fn without_tls_no_certificate_is_read() {
    let server = Server::always(json("[]")).await;
    let tls = TlsSettings {
        ca_file: Some("/nonexistent".into()),
        ..TlsSettings::default()
    };
    list(&server.url(), tls).await.expect("it lists");
}
