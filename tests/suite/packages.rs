//! What packages install: units that keep what tasks and volumes depend on, configuration that the program reads, and scripts
//! that remove no data. `.ci/installed` tries them in a Debian.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn read(path: &str) -> String {
    let text = std::fs::read_to_string(Path::new(ROOT).join(path));
    text.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the files of a folder, sorted.
fn files(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(Path::new(ROOT).join(folder)).expect("the folder is readable");
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<_> = names.map(|name| format!("{folder}/{name}")).collect();
    files.sort();
    files
}

/// Returns the settings of a unit.
fn settings(unit: &str) -> Vec<(String, String)> {
    let text = read(&format!("packaging/systemd/{unit}"));
    let settings = text.lines().filter(|line| !line.starts_with('#'));
    let settings = settings.filter_map(|line| line.split_once('='));
    settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn setting(unit: &str, name: &str) -> Option<String> {
    settings(unit).into_iter().find(|(found, _)| found == name).map(|(_, value)| value)
}

#[test]
fn the_units_of_tasks_let_tasks_and_mounts_outlive_the_agent() {
    for unit in ["nomad-csi.service", "nomad-csi-node.service"] {
        let settings = settings(unit);
        for (name, value) in [
            ("KillMode", "process"),
            ("OOMPolicy", "continue"),
            ("Delegate", "cpu memory pids"),
            ("DelegateSubgroup", "agent"),
            ("Type", "notify"),
        ] {
            let needed = (name.to_owned(), value.to_owned());
            assert!(settings.contains(&needed), "{unit}: {needed:?}");
        }
        // Each of these puts the mounts into a namespace of the unit.
        let separating = ["PrivateMounts", "PrivateTmp", "PrivateDevices", "MountFlags", "User"];
        for (name, _) in &settings {
            let separates = separating.contains(&name.as_str())
                || name.starts_with("Protect")
                || name.ends_with("Paths");
            assert!(!separates, "{unit}: {name} separates the mounts");
        }
    }
}

#[test]
fn what_mounts_nothing_has_a_user_without_rights() {
    for unit in ["nomad-csi-server.service", "nomad-csi-reconcile@.service"] {
        assert_eq!(setting(unit, "User").as_deref(), Some("nomad-csi"), "{unit}");
        assert_eq!(setting(unit, "CapabilityBoundingSet").as_deref(), Some(""), "{unit}");
        assert_eq!(setting(unit, "ProtectSystem").as_deref(), Some("strict"), "{unit}");
    }
}

#[cfg(feature = "agent")]
#[test]
fn every_unit_starts_a_command_that_exists() {
    let units = files("packaging/systemd");
    assert_eq!(units.len(), 4, "{units:?}");
    for unit in units {
        let unit = unit.rsplit('/').next().unwrap();
        let line = setting(unit, "ExecStart").expect("a unit starts something");
        let mut words = line.split(' ').filter(|word| !word.starts_with('$'));
        assert_eq!(words.next(), Some("/usr/bin/nomad-csi"), "{unit}");
        let output = run(words.map(|word| word.replace("%i", "web")).chain(["--help".into()]));
        assert!(output.status.success(), "{unit}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_unit_does_not_start_before_it_is_configured() {
    for unit in ["nomad-csi-server.service", "nomad-csi-node.service"] {
        let condition = setting(unit, "ConditionPathExists").expect("a condition");
        let command = setting(unit, "ExecStart").unwrap();
        let config = command.rsplit('/').next().unwrap();
        let (_, name) = condition.split_once("/etc/nomad-csi/").unwrap();
        // It is the certificate of the configuration that is installed.
        let config = read(&format!("packaging/config/{config}"));
        assert!(config.contains(&format!("\"{name}\"")), "{unit}: {name}\n{config}");
    }
    let condition = setting("nomad-csi-reconcile@.service", "ConditionPathIsDirectory").unwrap();
    assert!(setting("nomad-csi-reconcile@.service", "ExecStart").unwrap().contains(&condition));
    for script in files("packaging/deb").into_iter().chain(files("packaging/rpm")) {
        let text = read(&script);
        for starting in ["systemctl start", "systemctl enable", "systemctl restart", "--now"] {
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            let lines = lines.filter(|line| line.contains(starting));
            let lines: Vec<_> = lines.filter(|line| !line.contains("disable --now")).collect();
            assert!(lines.is_empty(), "{script}: {lines:?}");
        }
    }
}

#[test]
fn the_state_of_a_unit_is_where_its_command_keeps_it() {
    for (unit, place) in [
        ("nomad-csi.service", setting("nomad-csi.service", "ExecStart").unwrap()),
        ("nomad-csi-server.service", read("packaging/config/server.toml")),
        ("nomad-csi-node.service", read("packaging/config/node.toml")),
    ] {
        let directory = format!("/var/lib/{}", setting(unit, "StateDirectory").unwrap());
        assert!(place.contains(&directory), "{unit}: {directory}");
        assert_eq!(setting(unit, "StateDirectoryMode").as_deref(), Some("0700"), "{unit}");
    }
}

#[cfg(feature = "agent")]
fn run(words: impl IntoIterator<Item = String>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nomad-csi"));
    command.env_clear().args(words).output().expect("the program starts")
}

/// Starts the agent with an installed configuration, and returns what it reports. Its data would be in `directory`.
#[cfg(feature = "agent")]
fn refusal(directory: &Path, role: &str) -> String {
    let text = read(&format!("packaging/config/{role}.toml"));
    let text = text.replace("/var/lib/nomad-csi", &directory.display().to_string());
    let path = directory.join(format!("{role}.toml"));
    std::fs::write(&path, text).unwrap();
    let words = ["agent", role, "--config", path.to_str().unwrap()].map(str::to_owned);
    let output = run(words);
    assert!(!output.status.success(), "{role}");
    String::from_utf8(output.stderr).unwrap()
}

#[cfg(feature = "agent")]
#[test]
fn the_installed_configuration_is_read_and_lacks_what_only_the_operator_has() {
    let directory = tempfile::tempdir().unwrap();
    // The server lacks its certificate, the node the addresses of its servers.
    let server = refusal(directory.path(), "server");
    assert!(server.contains("tls/") && server.contains(".pem"), "{server}");
    let node = refusal(directory.path(), "node");
    assert!(node.contains("write the address of each server"), "{node}");
}

/// Returns the assets of a table of the manifest: from where, and to where.
fn assets(table: &str) -> Vec<(String, String)> {
    let manifest = read("Cargo.toml");
    let (_, section) = manifest.split_once(&format!("\n[{table}]\n")).expect("the table");
    let (_, assets) = section.split_once("assets = [\n").expect("assets");
    let (assets, _) = assets.split_once("\n]\n").expect("an end of the assets");
    let lines = assets.lines().filter(|line| !line.trim_start().starts_with('#'));
    let texts = lines.map(|line| line.split('"').collect::<Vec<_>>());
    texts.map(|texts| (texts[1].to_owned(), texts[3].trim_start_matches('/').to_owned())).collect()
}

#[test]
fn both_packages_have_every_file() {
    let deb = assets("package.metadata.deb");
    let rpm = assets("package.metadata.generate-rpm");
    let sources = |assets: &[(String, String)]| {
        let sources = assets.iter().map(|(source, _)| source.clone());
        let mut sources: Vec<_> = sources.filter(|source| source != "LICENSE-MIT").collect();
        sources.sort();
        sources
    };
    // `license-file` is LICENSE-MIT in the other one.
    assert_eq!(sources(&deb), sources(&rpm));
    for (source, _) in deb.iter().filter(|(source, _)| !source.contains('*')) {
        let is_made = source.starts_with("target/") || source.starts_with("staged/");
        assert!(is_made || Path::new(ROOT).join(source).is_file(), "{source}");
    }
    for config in files("packaging/config") {
        let place = config.replace("packaging/config", "etc/nomad-csi");
        for assets in [&deb, &rpm] {
            assert!(assets.contains(&(config.clone(), place.clone())), "{config}");
        }
    }
}

#[test]
fn scripts_of_packages_are_read_by_a_shell_and_remove_no_data() {
    let scripts: Vec<_> =
        files("packaging/deb").into_iter().chain(files("packaging/rpm")).collect();
    assert_eq!(scripts.len(), 6);
    for script in scripts {
        let path: PathBuf = Path::new(ROOT).join(&script);
        let check = Command::new("sh").arg("-n").arg(&path).output().expect("a shell");
        assert!(check.status.success(), "{script}: {}", String::from_utf8_lossy(&check.stderr));
        for line in read(&script).lines().map(str::trim) {
            let words: Vec<_> = line.split([' ', ';', '"']).collect();
            let is_removal = ["rm", "rmdir", "umount", "userdel", "find", "mv"]
                .iter()
                .any(|verb| words.contains(verb));
            let is_link = line.starts_with("rm -f ") && line.contains("/etc/systemd/system/");
            let is_comment = line.starts_with('#');
            assert!(!is_removal || is_link || is_comment, "{script}: {line}");
        }
    }
}
