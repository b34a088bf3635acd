//! Servers with an ACL: tokens count on the server that leads and on the one that does not, and over TLS.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::agent_process::{WaitingAgent, program};
use crate::cluster_machine::{Cluster, PLUGIN};
use crate::etcd_process::{EtcdCluster, EtcdOptions, etcd_program};
use crate::hostpath_fixture::run_in_namespace;
use crate::http::Address;
use crate::job_machine::{WRITER, volume};
use crate::wait::until;

const POLICY: &str = r#"
namespace "default" {
  policy       = "write"
  capabilities = ["csi-register-plugin"]
}
plugin { policy = "read" }
node   { policy = "read" }
agent  { policy = "read" }
"#;

const VOLUME: &str = r#"
id           = "data"
name         = "data"
type         = "csi"
plugin_id    = "ebs"
capacity_min = "1MiB"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
"#;

/// A client of a server.
struct Client<'a> {
    directory: &'a Path,
    settings: Vec<(&'static str, String)>,
}

impl Client<'_> {
    fn output(&self, words: &[&str]) -> Output {
        let mut command = program(words);
        command.current_dir(self.directory).envs(self.settings.iter().cloned());
        command.env("HOME", self.directory).env_remove("XDG_RUNTIME_DIR");
        command.output().unwrap()
    }

    fn run(&self, words: &[&str]) -> String {
        let output = self.output(words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn refused(&self, words: &[&str]) -> String {
        let output = self.output(words);
        assert!(!output.status.success(), "{words:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.run(&[words, &["-o", "json"]].concat())).unwrap()
    }

    fn secret(&self, words: &[&str]) -> String {
        self.json(words)["SecretID"].as_str().unwrap().to_owned()
    }
}

fn client<'a>(directory: &'a Path, address: &Address, token: Option<&str>) -> Client<'a> {
    let mut settings = vec![("NOMAD_ADDR", format!("http://{}", address.tcp()))];
    settings.extend(token.map(|token| ("NOMAD_TOKEN", token.to_owned())));
    Client { directory, settings }
}

/// What a token grants, it grants through every server, until it is gone, and over a change of the leader.
#[test]
fn a_token_counts_on_every_server_of_a_cluster() {
    let test = "cluster_acl::a_token_counts_on_every_server_of_a_cluster";
    let Some(etcd_path) = etcd_program(test) else {
        return;
    };
    run_in_namespace(test, async {
        let files = tempfile::tempdir().unwrap();
        let [a, b, ..] = std::process::id().to_le_bytes();
        let etcd = EtcdCluster::start(etcd_path, files.path(), [a, b], EtcdOptions::default());
        let mut cluster =
            Cluster::start_over_etcd(format!("[acl]\nenabled = true\n{}", etcd.section()));
        let second = cluster.start_standby("server-2");
        let standby = second.standing();
        let leader = cluster.machine.address().clone();
        let directory = cluster.path("");
        std::fs::write(cluster.path("storage.policy.hcl"), POLICY).unwrap();
        std::fs::write(cluster.path("volume.hcl"), VOLUME).unwrap();

        let operator = client(&directory, &leader, leader.token());
        let first = operator.secret(&["acl", "bootstrap"]);
        let again = operator.refused(&["acl", "bootstrap"]);
        assert!(again.contains("the first token of this cluster was made before"), "{again}");
        // The standby forwards the token, and reads with it by itself.
        let manager = client(&directory, &standby, Some(&first));
        manager.run(&["acl", "policy", "apply", "storage", "storage.policy.hcl"]);
        let made =
            manager.json(&["acl", "token", "create", "--name", "ci", "--acl-policy", "storage"]);
        let (secret, accessor) = (&made["SecretID"], made["AccessorID"].as_str().unwrap());
        let secret = secret.as_str().unwrap();
        assert!(manager.run(&["acl", "token", "list"]).contains(accessor));
        assert!(!manager.run(&["acl", "token", "list"]).contains(secret));

        for address in [&leader, &standby] {
            let stranger = client(&directory, address, None);
            let refused = stranger.refused(&["volume", "status"]);
            assert!(refused.contains("needs csi-list-volume"), "{refused}");
            let ci = client(&directory, address, Some(secret));
            assert!(ci.run(&["acl", "token", "self"]).contains(accessor));
            ci.run(&["auth", "check", "-f", "volume.hcl"]);
            let refused = ci.refused(&["acl", "token", "list"]);
            assert!(refused.contains("does not grant a management token"), "{refused}");
            let refused = ci.refused(&["namespace", "create", "team"]);
            assert!(
                refused.contains("does not grant any capability in namespace team"),
                "{refused}"
            );
        }
        let ci = client(&directory, &standby, Some(secret));
        ci.run(&["volume", "create", "-f", "volume.hcl"]);
        assert!(
            client(&directory, &leader, Some(secret)).run(&["volume", "status"]).contains("data")
        );
        cluster.machine.create_volume_with(PLUGIN, "db", WRITER, "file-system");
        let script = "while :; do sleep 0.1; done";
        cluster.machine.run(&cluster.machine.job("web", "service", &volume("db", WRITER), script));
        cluster.machine.wait_for("web", "running", 1);

        cluster.kill_server();
        cluster.machine.agent = Some(second.ready());
        let ci = client(&directory, &standby, Some(secret));
        until("the volumes to be listed", || {
            let output = ci.output(&["volume", "status"]);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            (output.status.success() && text.contains("data")).then_some(()).ok_or(text)
        });
        let manager = client(&directory, &standby, Some(&first));
        manager.run(&["acl", "token", "delete", accessor]);
        let refused = ci.refused(&["volume", "status"]);
        assert!(refused.contains("the server does not know the token"), "{refused}");
        cluster.machine.stop("web");
        cluster.machine.assert_no_claims();
        cluster.end();
    });
}

/// With TLS and an ACL a server listens on every address, and a client checks its certificate.
#[test]
fn a_server_with_an_acl_and_tls_listens_beyond_loopback() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let local = Client { directory: path, settings: vec![] };
    local.run(&["agent", "tls", "init", "--dir", "tls"]);
    local.run(&["agent", "tls", "server", "s1", "--dir", "tls"]);
    let [a, b, ..] = std::process::id().to_le_bytes();
    let keys = "cert = 'tls/s1.pem'\nkey = 'tls/s1-key.pem'\n";
    let write = |acl: &str| {
        let text = format!(
            "data_dir = 'server'\n[http]\naddress = '0.0.0.0:0'\n{keys}{acl}\
             [cluster]\naddress = '127.79.{a}.{b}:4647'\nca = 'tls/ca.pem'\n{keys}"
        );
        std::fs::write(path.join("server.toml"), text).unwrap();
    };
    write("");
    let refused = local.refused(&["agent", "server", "--config", "server.toml"]);
    assert!(refused.contains("other machines could reach the agent"), "{refused}");
    write("[acl]\nenabled = true\n");
    let mut command = program(["agent", "server", "--config"]);
    command.arg(path.join("server.toml")).env("NOMAD_CSI_LOG", "info");
    let server = WaitingAgent::start(command).ready();

    let socket = vec![("NOMAD_ADDR", format!("unix://{}", server.socket.display()))];
    let first = Client { directory: path, settings: socket }.secret(&["acl", "bootstrap"]);
    let port = server.address.tcp().port();
    let settings = |trust: bool| {
        let mut settings = vec![
            ("NOMAD_ADDR", format!("https://127.0.0.1:{port}")),
            ("NOMAD_TOKEN", first.clone()),
            ("NOMAD_TLS_SERVER_NAME", "server.global.nomad-csi".to_owned()),
        ];
        if trust {
            settings.push(("NOMAD_CACERT", path.join("tls/ca.pem").display().to_string()));
        }
        settings
    };
    let trusting = Client { directory: path, settings: settings(true) };
    assert!(trusting.run(&["acl", "token", "self"]).contains("Bootstrap Token"));
    let doubting = Client { directory: path, settings: settings(false) };
    let refused = doubting.refused(&["acl", "token", "self"]);
    assert!(refused.contains("certificate"), "{refused}");
    let plain = vec![("NOMAD_ADDR", format!("http://127.0.0.1:{port}")), ("NOMAD_TOKEN", first)];
    let plain = Client { directory: path, settings: plain };
    plain.refused(&["acl", "token", "self"]);
    assert!(server.stop().success());
}
