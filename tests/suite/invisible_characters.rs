//! Names, errors and files with characters that a terminal obeys, or with lines that a workflow runner takes for
//! commands: no command shows one of them.
//!
//! A server answers every request with such names. The commands run against it with colours, so that
//! only this program's own colours may remain.

use std::io::Read;
use std::path::Path;

use nomad_csi::cli::InputStream;
use nomad_csi_model::is_invisible;
use serde_json::{Value, json};

use crate::support::hermetic::{CapturedOutput, Redirect, test_environment};
use crate::support::http_server::{ReceivedRequest, Reply, Server, json as answer, text};

/// C0, C1, controls of direction, without width, a colour that hides text, and lines of their own.
const HOSTILE: &str = "a\u{1b}[2J\u{9b}8m\u{202e}b\u{200b}\u{2066}\u{1b}[8mc\u{7}\u{feff}\n::stop-commands::t\r\n##[error]forged";

fn volume(id: &str) -> Value {
    json!({
        "ID": id, "Name": HOSTILE, "Namespace": "default", "ExternalID": HOSTILE,
        "PluginID": HOSTILE, "Provider": HOSTILE, "ProviderVersion": HOSTILE,
        "AccessMode": HOSTILE, "AttachmentMode": HOSTILE, "Schedulable": true,
        "Context": {HOSTILE: HOSTILE}, "Parameters": {HOSTILE: HOSTILE},
        "RequestedCapabilities": [{"AccessMode": HOSTILE, "AttachmentMode": HOSTILE}],
        "Topologies": [{"Segments": {HOSTILE: HOSTILE}}],
        "MountOptions": {"FSType": HOSTILE, "MountFlags": [HOSTILE]},
        "Allocations": [{
            "ID": HOSTILE, "Name": HOSTILE, "JobID": HOSTILE, "TaskGroup": HOSTILE,
            "NodeID": HOSTILE, "NodeName": HOSTILE, "ClientStatus": "running", "DesiredStatus": "run",
        }],
        "WriteAllocs": {HOSTILE: null},
    })
}

fn plugin() -> Value {
    json!({
        "ID": HOSTILE, "Provider": HOSTILE, "Version": HOSTILE, "ControllerRequired": true,
        "ControllersHealthy": 1, "ControllersExpected": 1, "NodesHealthy": 1, "NodesExpected": 1,
        "Controllers": {HOSTILE: {
            "PluginID": HOSTILE, "AllocID": HOSTILE, "Healthy": true, "HealthDescription": HOSTILE,
            "ControllerInfo": {"SupportsListVolumes": true, "SupportsListSnapshots": true},
        }},
        "Nodes": {HOSTILE: {"PluginID": HOSTILE, "Healthy": false, "HealthDescription": HOSTILE}},
        "Allocations": [{"ID": HOSTILE, "NodeID": HOSTILE, "ClientStatus": HOSTILE}],
    })
}

/// Answers every request with hostile names; a write is refused with a hostile error.
fn reply(request: &ReceivedRequest) -> Reply {
    let path = request.target.split('?').next().unwrap_or_default();
    let snapshot = json!({
        "ID": HOSTILE, "ExternalSourceVolumeID": HOSTILE, "PluginID": HOSTILE, "Name": HOSTILE,
    });
    let body = match path {
        _ if request.method != "GET" => {
            return text(500, &format!("rpc error: {HOSTILE}\n{HOSTILE}"));
        }
        "/v1/agent/self" => json!({"config": {"Version": {"Version": "2.0.5"}}}),
        "/v1/namespaces" => json!([{"Name": "default"}]),
        "/v1/vars" | "/v1/acl/policies" | "/v1/nodes" | "/v1/allocations" => json!([]),
        "/v1/volumes" => json!([volume(HOSTILE), volume("db")]),
        "/v1/volumes/external" => json!({"Volumes": [{
            "ExternalID": HOSTILE, "Status": HOSTILE, "IsAbnormal": true, "SnapshotID": HOSTILE,
            "PublishedExternalNodeIDs": [HOSTILE], "VolumeContext": {HOSTILE: HOSTILE},
        }]}),
        "/v1/volumes/snapshot" => json!({"Snapshots": [snapshot]}),
        "/v1/plugins" => json!([plugin()]),
        "/v1/acl/token/self" => json!({"AccessorID": "a", "Name": HOSTILE, "Type": "client"}),
        "/v1/regions" => json!([HOSTILE]),
        path if path.starts_with("/v1/volume/csi/db") => volume("db"),
        path if path.starts_with("/v1/volume/csi/") => volume(HOSTILE),
        path if path.starts_with("/v1/plugin/csi/") => plugin(),
        path if path.starts_with("/v1/var/") => return text(404, HOSTILE),
        _ => return text(500, HOSTILE),
    };
    answer(&body.to_string())
}

/// The server, with the threads that run it.
struct HostileServer {
    server: Server,
    _runtime: tokio::runtime::Runtime,
}

impl HostileServer {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let server = runtime.block_on(Server::start(|request, _| reply(request)));
        Self { server, _runtime: runtime }
    }
}

struct Answers(&'static [u8]);

impl Read for Answers {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

/// Runs a command with colours and a terminal as input. Returns its raw output.
fn run(directory: &Path, server: &HostileServer, words: &[&str]) -> String {
    run_in(directory, server, words, [])
}

/// Runs a command with more variables in its environment.
fn run_in<const N: usize>(
    directory: &Path,
    server: &HostileServer,
    words: &[&str],
    variables: [(&str, &str); N],
) -> String {
    let output = CapturedOutput::default();
    let words = std::iter::once("nomad-csi").chain(words.iter().copied());
    let words = words.chain(["--force-color"]).map(str::to_owned);
    let mut world = test_environment(directory, words, &output);
    world.servers = std::sync::Arc::new(Redirect::to(&server.server.url()));
    world.stdin =
        InputStream { reader: Box::new(Answers(b"no\nno\nno\nno\nno\n")), is_terminal: true };
    let variables = variables.map(|(name, value)| (name, value.into()));
    let home = ("HOME", directory.join("home").into_os_string());
    world.environment = std::iter::once(home).chain(variables).collect();
    nomad_csi::cli::run_command_line(world);
    output.raw()
}

/// Asserts that a terminal only shows the text and its colours.
fn assert_harmless(words: &[&str], output: &str) {
    let plain = anstream::adapter::strip_str(output).to_string();
    let hidden: Vec<char> = plain.chars().filter(|c| *c != '\n' && is_invisible(*c)).collect();
    assert_eq!(hidden, Vec::<char>::new(), "{words:?}: {output:?}");
    for code in ["\u{1b}[2J", "\u{1b}[8m"] {
        assert!(!output.contains(code), "{words:?}: {output:?}");
    }
    for line in plain.lines().map(str::trim_start) {
        let is_forged = ["::stop", "##[error]", "forged"].map(|begin| line.starts_with(begin));
        assert_eq!(is_forged, [false; 3], "{words:?}: {plain}");
    }
}

const COMMANDS: &[&[&str]] = &[
    &["volume", "status"],
    &["volume", "status", "-o", "wide"],
    &["volume", "status", "-o", "json"],
    &["volume", "status", "-o", "yaml"],
    &["volume", "status", "-o", "name"],
    &["volume", "status", "-o", "jsonpath=$[*].Name"],
    &["volume", "status", "db"],
    &["volume", "status", "db", "-o", "json"],
    &["volume", "status", HOSTILE],
    &["volume", "delete", "db"],
    &["volume", "delete", HOSTILE],
    &["volume", "deregister", "db"],
    &["volume", "deregister", HOSTILE],
    &["volume", "detach", "db", HOSTILE],
    &["volume", "expand", "db", "10GiB"],
    &["volume", "wait", "db", "--timeout", "1ms"],
    &["plugin", "status"],
    &["plugin", "status", HOSTILE],
    &["plugin", "status", HOSTILE, "-o", "yaml"],
    &["snapshot", "list", "--plugin", HOSTILE],
    &["snapshot", "create", "db"],
    &["snapshot", "delete", HOSTILE, HOSTILE],
    &["orphans", HOSTILE],
    &["orphans", HOSTILE, "-o", "json"],
    &["import", "db"],
    &["import", HOSTILE],
    &["import", "--all", "--syntax", "json"],
    &["import", "--all", "--syntax", "yaml"],
    &["auth", "check"],
    &["status"],
    &["set", "list"],
    &["set", "show", HOSTILE],
    &["forget", HOSTILE, HOSTILE],
    &["plan", "-f", "good.hcl"],
    &["plan", "-f", "good.hcl", "-o", "json"],
    &["plan", "-f", "good.hcl", "-o", "markdown"],
    &["drift", "-f", "good.hcl", "--set", "web"],
    &["apply", "-f", "good.hcl"],
    &["apply", "-f", "good.hcl", "--replace", "db"],
    &["apply", "-f", "good.hcl", "--yes"],
    &["volume", "create", "-f", "good.hcl"],
    &["volume", "register", "-f", "good.hcl"],
    &["validate", "-f", HOSTILE],
    &["validate", "-f", "hostile"],
    &["validate", "-f", "hostile", "-o", "json"],
    &["validate", "-f", "good.hcl", "--namespace", HOSTILE],
    &["context", "list"],
    &["context", "use", HOSTILE],
    &["explain", HOSTILE],
    &["volume", "status", "--address", HOSTILE],
    &["volume", "status", "--response-limit", HOSTILE],
    &[HOSTILE],
    &["volume", HOSTILE],
    &["volume", "status", "-o", HOSTILE],
];

fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let good = "id = \"db\"\nname = \"db\"\ntype = \"csi\"\nplugin_id = \"p\"\nexternal_id = \"x\"\n\
                capability {\n  access_mode = \"single-node-writer\"\n  attachment_mode = \"file-system\"\n}\n";
    write("good.hcl", good.to_owned());
    let file = HOSTILE.replace('\u{1b}', "");
    let line = HOSTILE.replace(['\n', '\r'], "");
    let shown = file.replace(['\n', '\r'], "");
    write("hostile/broken.hcl", format!("id = \"{shown}\" # {line}\n\u{9b}31m = }}\n"));
    write("hostile/keys.yaml", format!("id: \"{shown}\"\n\"{shown}\": \"{shown}\"\nname: x\n"));
    write(&format!("hostile/{}.json", file.replace('\u{7}', "")), format!("{{\"{shown}\": 1}}"));
    write(
        "home/.config/nomad-csi/config.toml",
        format!("[contexts.\"{}\"]\naddress = \"http://{}\"\n", "a\u{202e}b", "x\u{202e}y"),
    );
    directory
}

#[test]
fn no_command_shows_characters_that_a_terminal_obeys() {
    let server = HostileServer::start();
    let directory = directory();
    let mut replaced = 0;
    for words in COMMANDS {
        let output = run(directory.path(), &server, words);
        assert!(!output.is_empty(), "{words:?}");
        assert_harmless(words, &output);
        let in_workflow = run_in(directory.path(), &server, words, [("GITHUB_ACTIONS", "true")]);
        assert_harmless(words, &in_workflow);
        assert!(!in_workflow.contains("##["), "{words:?}: {in_workflow}");
        replaced += usize::from(output.contains('\u{fffd}') || output.contains(r"\u202e"));
    }
    // Most of the commands have shown such a name, or the test would prove nothing.
    assert!(replaced > COMMANDS.len() / 2, "{replaced} of {}", COMMANDS.len());
}

#[test]
fn a_prompt_shows_what_it_asks_for() {
    let server = HostileServer::start();
    let directory = directory();
    let words = ["volume", "delete", HOSTILE];
    let output = run(directory.path(), &server, &words);
    assert_harmless(&words, &output);
    assert!(
        output.contains(
            "a␛[2J\u{fffd}8m\u{fffd}b\u{fffd}\u{fffd}␛[8mc␇\u{fffd}␊::stop-commands::t␍␊##[error]forged"
        ),
        "{output}"
    );
}

#[test]
fn a_specification_with_such_an_id_is_refused() {
    let server = HostileServer::start();
    let directory = directory();
    for c in ['\u{202e}', '\u{200b}', '\u{9b}', '\u{7f}'] {
        let id = format!("a{c}b");
        let spec = std::fs::read_to_string(directory.path().join("good.hcl")).unwrap();
        let spec = spec.replacen("\"db\"", &format!("\"{id}\""), 1);
        std::fs::write(directory.path().join("id.hcl"), spec).unwrap();
        let output = run(directory.path(), &server, &["apply", "-f", "id.hcl", "--yes"]);
        let plain = anstream::adapter::strip_str(&output).to_string();
        assert!(plain.contains("error[spec/volume-id]"), "{plain}");
    }
    let requests = server.server.requests();
    assert!(requests.iter().all(|request| request.method == "GET"), "{requests:?}");
}
