//! The pictures of README and `docs/` show what the program prints, and how it is built.
//!
//! Terminal pictures are rendered from real runs in a hermetic environment. The picture of the
//! architecture is drawn from the table below, which must agree with the
//! manifests of the crates. `NOMAD_CSI_BLESS=1` rewrites the files.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use nomad_csi::cli::run_command_line;

use super::architecture::{crates, rooms};
use crate::support::canned::{CannedResponse, CannedServer};
use crate::support::hermetic::{CapturedOutput, Redirect, test_environment};
use crate::support::http_server::response;

/// The floors of the house from top to bottom: a label, and crates with what they own.
const FLOORS: &[(&str, &[(&str, &str)])] = &[
    ("edge", &[("cli", "arguments, settings, printing, commands")]),
    (
        "assembly",
        &[("agent", "builds and runs the embedded orchestrator"), ("telemetry", "logs, metrics")],
    ),
    (
        "",
        &[
            ("etcd", "the journal of several servers, and which of them leads"),
            ("lsp", "what an editor asks of specifications"),
        ],
    ),
    (
        "workflows",
        &[
            ("client", "specifications to API calls"),
            ("server", "HTTP API, volumes, jobs"),
            ("node", "claims to mounts, tasks"),
            ("hostpath", "the embedded plugin"),
            ("conformance", "checks any plugin"),
        ],
    ),
    ("adapters", &[("rpc", "the protocol between servers and nodes")]),
    ("", &[("csi", "gRPC client of plugins"), ("testing", "fakes of the ports, for tests")]),
    (
        "ports",
        &[
            ("ports", "between server, node, plugins and the system, in their words"),
            ("proto", "the messages of CSI"),
            ("database", "files of the embedded database"),
        ],
    ),
    (
        "core",
        &[
            ("plan", "desired against observed, and what is wrong with a volume"),
            ("claims", "who may use a volume, and what the agent remembers"),
        ],
    ),
    (
        "",
        &[
            ("spec", "text to desired volumes: HCL, YAML, JSON; job files"),
            ("wire", "Nomad's JSON"),
        ],
    ),
    (
        "",
        &[(
            "model",
            "the nouns of the field; errors with code, place, note and help; when to try again",
        )],
    ),
];

const WIDTH: usize = 1180;
const LEFT: usize = 100;
const HEIGHT: usize = 58;
const GAP: usize = 14;
const COLORS: &[(&str, &str)] = &[
    ("edge", "#e7eef9"),
    ("assembly", "#e7eef9"),
    ("workflows", "#e9f5ea"),
    ("adapters", "#fdf3dc"),
    ("ports", "#f3e8f7"),
    ("core", "#f2f2f2"),
];

fn architecture_picture() -> String {
    let height = FLOORS.len() * (HEIGHT + GAP) + 2 * GAP + 20;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>The crates of nomad-csi: every crate uses only crates below it</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    let mut color = "#ffffff";
    for (at, (label, modules)) in FLOORS.iter().enumerate() {
        let top = GAP + at * (HEIGHT + GAP);
        let found = COLORS.iter().find(|(name, _)| name == label);
        color = found.map_or(color, |(_, color)| color);
        let middle = top + HEIGHT / 2;
        let _ = writeln!(svg, "<text x=\"12\" y=\"{middle}\" fill=\"#555555\">{label}</text>");
        let room = WIDTH - LEFT - GAP;
        let width = (room - GAP * (modules.len() - 1)) / modules.len();
        for (column, (module, what)) in modules.iter().enumerate() {
            let left = LEFT + column * (width + GAP);
            let (name_y, what_y, center) = (top + 24, top + 43, left + width / 2);
            let _ = write!(
                svg,
                "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{HEIGHT}\" rx=\"6\" \
                 fill=\"{color}\" stroke=\"#888888\"/>\n\
                 <text x=\"{center}\" y=\"{name_y}\" text-anchor=\"middle\" font-weight=\"bold\" \
                 font-size=\"15\">{module}</text>\n\
                 <text x=\"{center}\" y=\"{what_y}\" text-anchor=\"middle\" fill=\"#333333\">{what}</text>\n"
            );
        }
    }
    let bottom = height - GAP;
    let _ = write!(
        svg,
        "<text x=\"{LEFT}\" y=\"{bottom}\" fill=\"#555555\">A crate uses only crates below it. cli, agent and telemetry are the root package. \
         From plan and claims down: no I/O, no clock, no async.\
         </text>\n</svg>\n"
    );
    svg
}

#[test]
fn the_picture_of_the_architecture_shows_the_crates_of_the_workspace() {
    let drawn: Vec<&str> =
        FLOORS.iter().flat_map(|(_, modules)| modules.iter().map(|(module, _)| *module)).collect();
    let drawn: BTreeSet<String> = drawn.into_iter().map(ToOwned::to_owned).collect();
    assert_eq!(drawn, rooms());
    let floor = |name: &str| {
        let holds =
            |(_, crates): &(&str, &[(&str, &str)])| crates.iter().any(|(one, _)| *one == name);
        FLOORS.iter().position(holds)
    };
    for (name, uses) in crates() {
        for used in uses {
            assert!(floor(&used) > floor(&name), "`{name}` uses `{used}`, which is drawn above it");
        }
    }
    compare("docs/images/architecture.svg", &architecture_picture());
}

fn compare(file: &str, picture: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("NOMAD_CSI_BLESS").is_some() {
        let folder = path.parent().expect("the file is in a folder");
        std::fs::create_dir_all(folder).expect("the folder can be created");
        std::fs::write(&path, picture).expect("the picture is writable");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == picture,
        "{file} is out of date: run the tests with NOMAD_CSI_BLESS=1 to rewrite it"
    );
}

/// Returns what a command prints in colour, in a directory with these files, at this server.
fn colored_output(directory: &Path, command: &str, server: Option<&str>) -> String {
    let output = CapturedOutput::default();
    let words = std::iter::once("nomad-csi")
        .chain(command.split(' '))
        .chain(["--force-color"])
        .map(str::to_owned);
    let mut environment = test_environment(directory, words, &output);
    if let Some(url) = server {
        environment.servers = std::sync::Arc::new(Redirect::to(url));
    }
    run_command_line(environment);
    format!("$ nomad-csi {command}\n{}", output.raw())
}

fn terminal_picture(text: &str) -> String {
    anstyle_svg::Term::new().render_svg(text)
}

const VOLUME: &str = r#"id        = "database"
name      = "database"
type      = "csi"
plugin_id = "ebs0"

capacity_min = "100GB"
capacity_mx  = "200GB"

capability {
  access_mode     = "single-node-writter"
  attachment_mode = "file-system"
}
"#;

#[test]
fn the_picture_of_an_error_shows_what_the_program_prints() {
    let directory = tempfile::tempdir().expect("a directory can be created");
    std::fs::write(directory.path().join("volume.hcl"), VOLUME).expect("the file is writable");
    let text = colored_output(directory.path(), "validate -f volume.hcl", None);
    compare("docs/images/error.svg", &terminal_picture(&text));
}

/// The answers of a server that has volume `db` and two snapshots of it.
const ANSWERS: &[(&str, &str)] = &[
    ("GET /v1/regions", r#"["global"]"#),
    (
        "GET /v1/plugin/csi/ebs0?namespace=default",
        r#"{"ID":"ebs0","Provider":"ebs.csi.example","Version":"v1","ControllerRequired":true,"ControllersExpected":1,"ControllersHealthy":1,"NodesExpected":1,"NodesHealthy":1,"Controllers":{"0c9d8e7f-1111-2222-3333-444455556666":{"Healthy":true,"Provider":"ebs.csi.example","ControllerInfo":{"SupportsCreateDelete":true,"SupportsListSnapshots":true}}},"Nodes":{}}"#,
    ),
    (
        "GET /v1/volume/csi/db?namespace=default",
        r#"{"ID":"db","Name":"db","Namespace":"default","ExternalID":"vol-db","PluginID":"ebs0","Provider":"ebs.csi.example","ProviderVersion":"v1","Capacity":10737418240,"Schedulable":true,"ControllerRequired":true,"ControllersHealthy":1,"ControllersExpected":1,"NodesHealthy":1,"NodesExpected":1,"RequestedCapabilities":[{"AccessMode":"single-node-writer","AttachmentMode":"file-system"}],"MountOptions":{"FSType":"","MountFlags":null},"ModifyIndex":12}"#,
    ),
    ("GET /v1/volumes?namespace=*&per_page=2000&type=csi", "[]"),
    (
        "GET /v1/volumes/snapshot?namespace=default&plugin_id=ebs0",
        r#"{"Snapshots":[{"ID":"snap-2","ExternalSourceVolumeID":"vol-db","SizeBytes":10737418240,"CreateTime":1767300000,"IsReady":true}]}"#,
    ),
];

#[test]
fn the_picture_of_a_plan_shows_what_the_program_prints() {
    let directory = tempfile::tempdir().expect("a directory can be created");
    let volume = VOLUME
        .replace("database", "db")
        .replace("capacity_min = \"100GB\"\ncapacity_mx  = \"200GB\"\n\n", "")
        .replace("writter", "writer");
    std::fs::write(directory.path().join("db.hcl"), volume).expect("the file is writable");
    let interrupts = nomad_csi::cli::Interrupts::default();
    let server = CannedServer::start(&interrupts);
    for (request, body) in ANSWERS {
        let reply = response(200, "application/json", &[], body.as_bytes());
        let canned = CannedResponse { reply, interrupts: 0 };
        server.set_response(request, canned);
    }
    let url = server.url();
    let text = colored_output(directory.path(), "plan -f db.hcl --replace db", Some(&url));
    assert_eq!(server.unexpected(), Vec::<String>::new());
    let text = text.replace(&url, "http://127.0.0.1:4646");
    compare("docs/images/plan.svg", &terminal_picture(&text));
}

#[cfg(feature = "agent")]
#[test]
fn the_picture_of_a_plugin_check_shows_what_the_program_prints() {
    use crate::support::reference_plugin::{Deviation, ReferencePlugin};

    let directory = tempfile::tempdir().expect("a directory can be created");
    let socket = directory.path().join("csi.sock");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("the runtime starts");
    let plugin = {
        let _entered = runtime.enter();
        ReferencePlugin::start(&socket, Some(Deviation::ConfirmsUnknown))
    };
    let command = format!(
        "plugin check --endpoint unix://{} --only identity,validate,delete",
        socket.display()
    );
    let text = colored_output(directory.path(), &command, None);
    drop(plugin);
    let text = text.replace(&directory.path().display().to_string(), "/run");
    compare("docs/images/plugin-check.svg", &terminal_picture(&text));
}
