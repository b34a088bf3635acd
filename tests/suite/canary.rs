//! No output contains a secret. Every source of secrets has a distinct text, the server repeats
//! what it receives, and the program runs as a process with verbose logs.

use std::path::Path;
use std::process::Command;

use crate::support::http_server::{ReceivedRequest, Reply, Server, json, text};

const SPEC: &str = "volume \"db\" {\n  name = \"db\"\n  type = \"csi\"\n  plugin_id = \"ebs0\"\n  capability {\n    access_mode = \"single-node-writer\"\n    attachment_mode = \"file-system\"\n  }\n  mount_options {\n    mount_flags = [\"password=canary-flags\"]\n  }\n  secrets {\n    a = \"canary-literal\"\n    b = env(\"CANARY\")\n    c = file(\"secret.txt\")\n  }\n}\n";
const CONFIG: &str = "[context.lab]\naddress = \"ADDRESS\"\ntoken = { env = \"LAB_TOKEN\" }\n[context.file]\naddress = \"ADDRESS\"\ntoken = { file = \"token\" }\n";

/// Responds as a Nomad without volumes that repeats the body and the token of every write.
fn answer(seen: &ReceivedRequest) -> Reply {
    let path = seen.target.split('?').next().unwrap_or_default();
    let token = seen.header("x-nomad-token").unwrap_or_default();
    match (seen.method.as_str(), path) {
        ("GET", "/v1/regions") => json("[\"global\"]"),
        ("GET", "/v1/volumes" | "/v1/acl/policies" | "/v1/namespaces" | "/v1/vars") => json("[]"),
        ("GET", "/v1/plugin/csi/ebs0") => json(
            "{\"ID\":\"ebs0\",\"Provider\":\"p\",\"Version\":\"1\",\"ControllerRequired\":true,\"ControllersHealthy\":1,\"ControllersExpected\":1,\"NodesHealthy\":1,\"NodesExpected\":1,\"Controllers\":{},\"Nodes\":{}}",
        ),
        ("GET", "/v1/acl/token/self") => json(&format!(
            "{{\"AccessorID\":\"a\",\"SecretID\":\"{token}\",\"Name\":\"n\",\"Type\":\"management\"}}"
        )),
        ("GET", path) if path.starts_with("/v1/volume/csi/") => text(404, "volume not found"),
        ("GET", _) => text(404, "not found"),
        _ => text(
            500,
            &format!("rpc error: {token} may not send {}", seen.body),
        ),
    }
}

fn run(directory: &Path, address: &str, line: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_nomad-csi"))
        .args(line.split(' '))
        .current_dir(directory)
        .env_clear()
        .env("HOME", directory)
        .env("XDG_CONFIG_HOME", directory)
        .env("CANARY", "canary-environment")
        .env("LAB_TOKEN", "canary-context-token")
        .env("NOMAD_TOKEN", "canary-token")
        .env("NOMAD_HTTP_AUTH", "user:canary-password")
        .envs((!line.contains("--context")).then_some(("NOMAD_ADDR", address)))
        .output()
        .expect("the program starts");
    let texts = [output.stdout, output.stderr];
    texts
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_output_contains_a_secret() {
    let server = Server::start(|seen, _| answer(seen)).await;
    let address = format!("http://{}", server.address);
    let directory = tempfile::tempdir().expect("the directory is created");
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().expect("the path has a parent"))
            .expect("the file is writable");
        std::fs::write(path, text).expect("the file is writable");
    };
    write("specs/db.hcl", SPEC);
    write("specs/secret.txt", "canary-file\n");
    write(
        "nomad-csi/config.toml",
        &CONFIG.replace("ADDRESS", &address),
    );
    write("nomad-csi/token", "canary-token-file\n");
    write(
        "bad/nomad-csi/config.toml",
        "[context.x]\ntoken = \"canary-config\"\n",
    );
    write(
        "broken.hcl",
        &SPEC.replace("secrets {", "secrets { x = = \"canary-broken\""),
    );
    let lines = [
        "validate -f specs",
        "validate -f broken.hcl",
        "plan -f specs -vv",
        "plan -f specs -o json -vv --log-format json",
        "apply -f specs --yes -vv",
        "apply -f specs --yes --set web -vv --log-format json",
        "apply -f specs --yes --set web --ledger file:ledger.json -vv",
        "plan -f specs --set web --ledger file:ledger.json --out plan.ncsi -vv",
        "apply plan.ncsi --yes -vv",
        "volume create -f specs -vv",
        "volume register -f specs -vv",
        "volume create -f specs --token canary-flag -vv",
        "volume create -f specs --context lab -vv",
        "volume create -f specs --context file -vv",
        "volume delete db --secret-from a=env:CANARY --yes -vv",
        "auth check -f specs -vv",
        "auth check -o json -vv --log-format json",
        "drift -f specs --set web --ledger file:ledger.json -vv",
        "drift -f specs --set web --ledger file:ledger.json -o json -vv --log-format json",
        "import db -vv",
        "snapshot create db --name n --secret-from k=env:CANARY -vv",
        "snapshot list --plugin ebs0 --secret-from k=env:CANARY -vv",
        "volume expand db -f specs -vv",
        "orphans --plugin ebs0 -vv",
        "context list",
        "context show lab -o json",
        "context show file",
        "volume status -o json",
    ];
    let mut shown = vec![];
    for line in lines {
        let (folder, address) = (directory.path().to_owned(), address.clone());
        let run = tokio::task::spawn_blocking(move || run(&folder, &address, line));
        shown.push((line, run.await.expect("the program exits")));
    }
    for (line, text) in &shown {
        assert!(!text.is_empty(), "{line} prints nothing");
        assert!(!text.contains("canary-"), "{line}:\n{text}");
    }
    for file in ["ledger.json", "plan.ncsi"] {
        let kept = std::fs::read_to_string(directory.path().join(file)).expect("the file exists");
        assert!(!kept.contains("canary-"), "{file}:\n{kept}");
    }
    // The server received all secrets, so the program had to hide them.
    let seen = format!("{:?}", server.requests());
    for canary in [
        "canary-literal",
        "canary-environment",
        "canary-file",
        "canary-flags",
        "canary-token",
        "canary-flag",
        "canary-context-token",
        "canary-token-file",
    ] {
        assert!(seen.contains(canary), "{canary} was never sent");
    }
}
