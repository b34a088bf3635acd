//! The pictures of README and `docs/` show what the program prints, and how it is built.
//!
//! Terminal pictures are rendered from real runs in a hermetic environment. The picture of the
//! architecture is drawn from the table below, which must agree with the layers that
//! `architecture.rs` enforces. `NOMAD_CSI_BLESS=1` rewrites the files.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use super::architecture::LAYERS;

/// The floors of the house from top to bottom: a label, and modules with what they own.
const FLOORS: &[(&str, &[(&str, &str)])] = &[
    (
        "edge",
        &[("cli", "arguments, settings, printing, commands")],
    ),
    (
        "assembly",
        &[("agent", "builds and runs the embedded orchestrator")],
    ),
    (
        "workflows",
        &[
            ("reconcile", "specifications to API calls"),
            ("server", "HTTP API and volumes"),
            ("node", "plugins as tasks"),
            ("hostpath", "the embedded plugin"),
            ("conformance", "checks any plugin"),
        ],
    ),
    (
        "adapters",
        &[
            ("nomad", "HTTP client"),
            ("csi", "gRPC client"),
            ("store", "journal, keys"),
            ("mounts", "mount(2)"),
            ("driver", "processes"),
            ("files", "local files"),
            ("secrets", "references"),
            ("telemetry", "logs, metrics"),
        ],
    ),
    (
        "ports",
        &[(
            "ports",
            "what the core needs from outside, in the core's words; fakes for tests",
        )],
    ),
    (
        "core",
        &[
            ("plan", "wanted against observed"),
            ("state", "what the agent remembers"),
            ("wire", "Nomad's JSON"),
        ],
    ),
    ("", &[("spec", "text to wanted volumes: HCL, YAML, JSON")]),
    (
        "",
        &[
            ("model", "the nouns of the field"),
            ("retry", "whether and when to try again"),
        ],
    ),
    (
        "",
        &[("diagnostic", "errors with code, place, note and help")],
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
         <title>The layers of nomad-csi: every module uses only modules below it</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    let mut color = "#ffffff";
    for (at, (label, modules)) in FLOORS.iter().enumerate() {
        let top = GAP + at * (HEIGHT + GAP);
        let found = COLORS.iter().find(|(name, _)| name == label);
        color = found.map_or(color, |(_, color)| color);
        let middle = top + HEIGHT / 2;
        let _ = writeln!(
            svg,
            "<text x=\"12\" y=\"{middle}\" fill=\"#555555\">{label}</text>"
        );
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
        "<text x=\"{LEFT}\" y=\"{bottom}\" fill=\"#555555\">A module uses only modules below it. Modules \
         of one floor do not use each other. From ports to diagnostic: no I/O, no clock; from plan down: no async.\
         </text>\n</svg>\n"
    );
    svg
}

#[test]
fn the_picture_of_the_architecture_shows_the_layers_that_are_enforced() {
    let drawn: Vec<&str> = FLOORS
        .iter()
        .flat_map(|(_, modules)| modules.iter().map(|(module, _)| *module))
        .collect();
    let enforced: BTreeSet<&str> = LAYERS.iter().map(|(module, _)| *module).collect();
    assert_eq!(drawn.iter().copied().collect::<BTreeSet<_>>(), enforced);
    let floor = |module: &str| {
        let holds = |(_, modules): &(&str, &[(&str, &str)])| {
            modules.iter().any(|(name, _)| *name == module)
        };
        FLOORS.iter().position(holds)
    };
    for (module, uses) in LAYERS {
        for used in *uses {
            assert!(
                floor(used) > floor(module),
                "`{module}` uses `{used}`, which is drawn above it"
            );
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
