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
        _ => text(500, &format!("rpc error: {token} may not send {}", seen.body)),
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
    texts.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat()
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
    write("nomad-csi/config.toml", &CONFIG.replace("ADDRESS", &address));
    write("nomad-csi/token", "canary-token-file\n");
    write("bad/nomad-csi/config.toml", "[context.x]\ntoken = \"canary-config\"\n");
    write("broken.hcl", &SPEC.replace("secrets {", "secrets { x = = \"canary-broken\""));
    let lines = [
        "validate -f specs",
        "validate -f broken.hcl",
        "plan -f specs -vv",
        "plan -f specs -o json -vv --log-format json",
        "apply -f specs --yes -vv",
        "apply -f specs --yes --set web -vv --log-format json",
        "apply -f specs --yes --set web --ledger file:ledger.json -vv",
        "plan -f specs --set web --ledger file:ledger.json --out plan.ncsi -vv",
        "apply plan.ncsi --ledger file:ledger.json --yes -vv",
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

/// Files that others may have written: nothing that they contain or name is shown, and none of them chooses where this
/// program writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_from_others_show_nothing_and_choose_nothing() {
    let server = Server::start(|seen, _| answer(seen)).await;
    let address = format!("http://{}", server.address);
    let directory = tempfile::tempdir().expect("the directory is created");
    let outside = tempfile::tempdir().expect("the directory is created");
    let folder = directory.path();
    let write = |path: &Path, text: &str| std::fs::write(path, text).expect("a writable file");
    write(&folder.join("db.hcl"), &SPEC.replace("file(\"secret.txt\")", "\"canary-x\""));
    let secret = outside.path().join("shadow");
    write(&secret, "root:canary-hash:20228:0:99999:7:::\n");
    let lines = [
        "plan db.hcl --set web --ledger file:ledger.json --out plan.ncsi",
        "plan db.hcl --out other.ncsi",
    ];
    let run_all = async |lines: Vec<String>| {
        let (folder, address) = (folder.to_owned(), address.clone());
        let shown = tokio::task::spawn_blocking(move || {
            let shown = lines.iter().map(|line| run(&folder, &address, line));
            shown.collect::<Vec<_>>()
        });
        shown.await.expect("the program exits")
    };
    run_all(lines.map(str::to_owned).to_vec()).await;
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a saved plan");
    let named = serde_json::to_string(&secret.display().to_string()).expect("a text");
    let plan = read("other.ncsi");
    assert!(plan.contains("\"db.hcl\""), "{plan}");
    write(&folder.join("named.ncsi"), &plan.replace("\"db.hcl\"", &named));
    write(&folder.join("up.ncsi"), &plan.replace("\"db.hcl\"", "\"../*/shadow\""));
    let chosen = outside.path().join("chosen.json");
    let plan = read("plan.ncsi");
    assert!(plan.contains("file:ledger.json"), "{plan}");
    let chosen_text = format!("file:{}", chosen.display());
    write(&folder.join("chosen.ncsi"), &plan.replace("file:ledger.json", &chosen_text));
    write(
        &folder.join("bad-ledger.json"),
        "{\"format\":1,\"sets\":{\"web\":{\"head\":\"canary-ledger\"}}}",
    );
    write(
        &folder.join("state.tfstate"),
        "{\"version\":4,\"resources\":[{\"mode\":\"managed\",\"type\":\"nomad_csi_volume\",\"name\":\"x\",\"instances\":[{\"attributes\":{\"volume_id\":7,\"secrets\":{\"a\":\"canary-tf\"},\"mount_options\":[{\"mount_flags\":[\"password=canary-tf\"]}]}}]}]}",
    );
    std::fs::create_dir_all(folder.join("nomad-csi")).expect("a directory");
    write(
        &folder.join("nomad-csi/config.toml"),
        "[context.x]\naddress = \"http://a:canary-config@b\"\ntoken = \"canary-config\"\n",
    );
    let lines: Vec<String> = [
        "apply named.ncsi --yes",
        "apply up.ncsi --yes",
        "apply chosen.ncsi --yes",
        "apply chosen.ncsi --ledger file:ledger.json --yes",
        "plan db.hcl --set web --ledger file:bad-ledger.json",
        "set show web --ledger file:bad-ledger.json",
        "import --from-tfstate state.tfstate",
        "context list",
        "context show x",
        "plan db.hcl --context x",
    ]
    .map(str::to_owned)
    .to_vec();
    for (line, text) in lines.iter().zip(run_all(lines.clone()).await) {
        assert!(!text.is_empty(), "{line} prints nothing");
        assert!(!text.contains("canary-"), "{line}:\n{text}");
    }
    assert!(!chosen.exists(), "the plan chose the ledger");
}
