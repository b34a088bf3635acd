//! `plugin check` and `plugin probe` as processes, against the embedded plugin with real mounts.

use std::path::Path;
use std::process::{Command, Output};

use nomad_csi_node::mounts::LinuxBlockStorage;
use nomad_csi_ports::BlockStorage as _;
use serde_json::Value;

use crate::plugin_process::{PluginProcess, endpoint, plugin_command, socket_in};
use nomad_csi_testing::namespace::run_in_mount_namespace;

fn start(directory: &Path, flags: &[&str]) -> PluginProcess {
    let mut command = plugin_command(directory, flags);
    command.arg("-vv");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(PluginProcess::run(command, directory, &socket_in(directory)))
}

fn nomad_csi(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nomad-csi"))
        .args(arguments)
        .arg("--endpoint")
        .arg(endpoint(directory))
        .current_dir(directory)
        .env("TMPDIR", directory)
        .output()
        .unwrap()
}

fn document(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        panic!("{error}\n{text}\n{stderr}")
    })
}

/// The embedded plugin passes every check and keeps no volume afterwards.
#[test]
fn the_embedded_plugin_passes_every_check_with_real_mounts() {
    run_in_mount_namespace(
        "plugin_check::the_embedded_plugin_passes_every_check_with_real_mounts",
        || {
            let directory = tempfile::tempdir().unwrap();
            let directory = directory.path();
            std::fs::write(directory.join("secrets.yaml"), "password: hunter2\n").unwrap();
            std::fs::write(directory.join("mutable.yaml"), "direct_io: \"false\"\n").unwrap();
            let _plugin = start(directory, &[]);
            let output = nomad_csi(
                directory,
                &[
                    "plugin",
                    "check",
                    "--destructive",
                    "--secrets",
                    "secrets.yaml",
                    "--mutable-parameters",
                    "mutable.yaml",
                    "--log",
                    "plugin.log",
                    "--format",
                    "junit=report.xml,markdown=report.md",
                    "-o",
                    "json",
                ],
            );
            let report = document(&output);
            let wrong = report["checks"].as_array().unwrap().iter().filter(|check| {
                let verdict = check["verdict"].as_str().unwrap();
                !["passed", "skipped"].contains(&verdict)
                    || check["findings"] != Value::Array(vec![])
            });
            let wrong: Vec<_> = wrong.collect();
            assert!(wrong.is_empty(), "{wrong:#?}");
            assert_eq!(output.status.code(), Some(0));
            assert!(report["summary"]["passed"].as_u64().unwrap() > 50);
            assert_eq!(report["leftovers"], Value::Array(vec![]));
            let left = std::fs::read_dir(directory.join("state/volumes"));
            let left = left.map_or(0, Iterator::count);
            assert_eq!(left, 0, "every volume is deleted");
            let xml = std::fs::read_to_string(directory.join("report.xml")).unwrap();
            assert!(xml.contains("failures=\"0\" errors=\"0\""), "{xml}");
            let markdown = std::fs::read_to_string(directory.join("report.md")).unwrap();
            assert!(markdown.contains(" 0 failed, 0 not run"), "{markdown}");
            let everything = format!("{report}{xml}{markdown}");
            assert!(!everything.contains("hunter2"));
        },
    );
}

#[test]
fn probe_describes_the_embedded_plugin() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let _plugin = start(directory, &[]);
    let output = nomad_csi(directory, &["plugin", "probe", "-o", "json"]);
    let probe = document(&output);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(probe["ready"], Value::Bool(true));
    assert_eq!(probe["node"]["node_id"], "node-1");
    assert_eq!(probe["problems"], Value::Array(vec![]));
    let capabilities = probe["controller_capabilities"].as_array().unwrap();
    assert!(capabilities.contains(&Value::from("CREATE_DELETE_VOLUME")));
    let text = nomad_csi(directory, &["plugin", "probe"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("\nController Capabilities\n"), "{text}");
    assert!(!text.contains("Violations of the Specification"), "{text}");
}

/// The plugin advertises only what its process may do on this machine.
#[test]
fn the_embedded_plugin_advertises_the_expansion_that_works_here() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let offers = LinuxBlockStorage::default().features();
    let expected = match (offers.supports_sizes(), offers.supports_online_expansion()) {
        (false, _) => vec![],
        (true, true) => vec![Value::from("ONLINE")],
        (true, false) => vec![Value::from("OFFLINE")],
    };
    let _plugin = start(directory, &[]);
    let output = nomad_csi(directory, &["plugin", "probe", "-o", "json"]);
    let probe = document(&output);
    assert_eq!(probe["volume_expansion"], Value::Array(expected));
    let log = std::fs::read_to_string(directory.join("plugin.log")).unwrap();
    let is_logged = log.contains("CAP_SYS_RESOURCE");
    assert_eq!(is_logged, offers.supports_sizes() && !offers.supports_online_expansion(), "{log}");
}

/// The faults that crash the process. `tests/suite/hostpath_check.rs` has the others. The plugin counts
/// faults over all its starts, so a restarted plugin works.
#[test]
fn an_injected_crash_is_found_by_the_check_in_which_it_occurs() {
    for (fault, id) in [
        ("CreateVolume:crash:1", "create/volume"),
        ("CreateVolume:crash-after:1", "create/volume"),
        ("DeleteVolume:crash-after:1", "delete/twice"),
        ("CreateSnapshot:crash:1", "snapshot/create"),
        ("ListVolumes:crash:1", "list/volumes"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let _plugin = start(directory, &["--backing", "directory", "--fault", fault]);
        let arguments = ["plugin", "check", "--destructive", "-o", "json", "--only", id];
        let output = nomad_csi(directory, &arguments);
        let report = document(&output);
        let check = &report["checks"][0];
        assert_eq!(check["verdict"], "failed", "{fault}: {check:#}");
        let findings = check["findings"].to_string();
        assert!(findings.contains("accepts no connection any more"), "{fault}: {findings}");
        assert_ne!(output.status.code(), Some(0));
    }
}
