//! `plugin check` and `plugin probe` as processes, against the embedded plugin with real mounts.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::namespace::inside;
use crate::plugin_client::{Client, channel};
use crate::wait::until_async;

/// The embedded plugin below a directory, which is killed when the test ends.
struct Plugin(Child);

impl Drop for Plugin {
    fn drop(&mut self) {
        self.0.kill().expect("it can be killed");
        self.0.wait().expect("it ends");
    }
}

fn endpoint(directory: &Path) -> String {
    format!("unix://{}", directory.join("s/csi.sock").display())
}

fn start(directory: &Path) -> Plugin {
    let log = std::fs::File::create(directory.join("plugin.log")).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_nomad-csi"))
        .args(["-vv", "plugin", "serve", "--node-id", "node-1"])
        .arg("--endpoint")
        .arg(endpoint(directory))
        .arg("--state-dir")
        .arg(directory.join("state"))
        .stdin(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    let plugin = Plugin(child);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = Client::over(channel(&directory.join("s/csi.sock")));
        until_async("the plugin", async || {
            let mut identity = client.identity.clone();
            let probe = identity.probe(nomad_csi::csi::proto::ProbeRequest {}).await;
            probe.map(drop).map_err(|status| status.to_string())
        })
        .await;
    });
    plugin
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
        let said = String::from_utf8_lossy(&output.stderr);
        panic!("{error}\n{text}\n{said}")
    })
}

/// Whether this process has the capability of that number.
fn has_capability(number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = u64::from_str_radix(line.unwrap().trim(), 16).unwrap();
    set & (1 << number) != 0
}

/// The embedded plugin is what the checks say a plugin should be, and keeps nothing of them.
#[test]
fn the_embedded_plugin_passes_every_check_with_real_mounts() {
    inside(
        "plugin_check::the_embedded_plugin_passes_every_check_with_real_mounts",
        || {
            let directory = tempfile::tempdir().unwrap();
            let directory = directory.path();
            std::fs::write(directory.join("secrets.yaml"), "password: hunter2\n").unwrap();
            let _plugin = start(directory);
            // An ext4 grows while it is mounted only for who has CAP_SYS_RESOURCE.
            let skip: &[&str] = if has_capability(24) {
                &[]
            } else {
                &["--skip", "expand/online"]
            };
            let output = nomad_csi(
                directory,
                &[
                    "plugin",
                    "check",
                    "--destructive",
                    "--secrets",
                    "secrets.yaml",
                    "--log",
                    "plugin.log",
                    "--format",
                    "junit=report.xml,markdown=report.md",
                    "-o",
                    "json",
                ]
                .iter()
                .chain(skip)
                .copied()
                .collect::<Vec<_>>(),
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
            assert_eq!(left, 0, "every volume is deleted again");
            let xml = std::fs::read_to_string(directory.join("report.xml")).unwrap();
            assert!(xml.contains("failures=\"0\" errors=\"0\""), "{xml}");
            let markdown = std::fs::read_to_string(directory.join("report.md")).unwrap();
            assert!(markdown.contains(" 0 failed, 0 untried"), "{markdown}");
            let everything = format!("{report}{xml}{markdown}");
            assert!(!everything.contains("hunter2"));
        },
    );
}

#[test]
fn the_embedded_plugin_says_what_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let _plugin = start(directory);
    let output = nomad_csi(directory, &["plugin", "probe", "-o", "json"]);
    let said = document(&output);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(said["ready"], Value::Bool(true));
    assert_eq!(said["node"]["node_id"], "node-1");
    assert_eq!(said["problems"], Value::Array(vec![]));
    let capabilities = said["controller_capabilities"].as_array().unwrap();
    assert!(capabilities.contains(&Value::from("CREATE_DELETE_VOLUME")));
    let text = nomad_csi(directory, &["plugin", "probe"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("\nController Capabilities\n"), "{text}");
    assert!(!text.contains("Breaks The Specification"), "{text}");
}
