//! The usage of a volume with a real file system, in `volume status` and in the metrics; and what the provider has left.

use serde_json::Value;

use crate::agent_process::program;
use crate::hostpath_fixture::run_in_namespace_with_devices;
use crate::job_machine::{Machine, WRITER, volume};
use crate::wait::until;

fn status(machine: &Machine, arguments: &[&str]) -> String {
    let mut command = program(["volume", "status", "data"]);
    command.args(arguments);
    command.env("NOMAD_ADDR", format!("http://{}", machine.address().tcp()));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The value of a gauge of the volume.
fn gauge(machine: &Machine, name: &str) -> Option<u64> {
    let path = "/v1/metrics?format=prometheus";
    let text = machine.address().ask("GET", path, None).unwrap().text();
    let start = format!("nomad_csi_{name}{{namespace=\"default\",volume=\"data\",node=");
    let line = text.lines().find(|line| line.starts_with(&start))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// W56: the task writes 8 MiB into a volume of 64 MiB; text, JSON and metrics show it, and nothing when it has ended.
#[test]
fn the_usage_of_a_mounted_volume_is_shown() {
    let test = "volume_stats::the_usage_of_a_mounted_volume_is_shown";
    run_in_namespace_with_devices(test, async {
        let machine = Machine::new();
        machine.create_sized_volume("data", WRITER, "file-system", 64 << 20);
        assert!(!status(&machine, &[]).contains("Usage"));
        let script =
            "dd if=/dev/zero of=/data/file bs=1M count=8 && sync && echo written && sleep 600";
        machine.run(&machine.job("db", "service", &volume("data", WRITER), script));
        let alloc = machine.wait_for("db", "running", 1).remove(0);
        until("the file to be written", || {
            let output = machine.output(&alloc);
            output.contains("written").then_some(()).ok_or(output)
        });
        let document: Value = serde_json::from_str(&status(&machine, &["-o", "json"])).unwrap();
        assert_eq!(document["StatsUnknown"], Value::Null, "{document}");
        let stats = &document["Stats"][0];
        let number = |unit: &str, field: &str| stats[unit][field].as_u64().unwrap();
        let (used, total) = (number("Bytes", "Used"), number("Bytes", "Total"));
        assert!((8 << 20..16 << 20).contains(&used), "{stats}");
        assert!((32 << 20..=64 << 20).contains(&total), "{stats}");
        assert!(number("Bytes", "Available") + used <= total, "{stats}");
        // The root of the file system, lost+found and the file, and those that ext4 reserves.
        assert!((12..20).contains(&number("Inodes", "Used")), "{stats}");
        let text = status(&machine, &[]);
        let row = text.lines().find(|line| line.contains("bytes  "));
        let percent = format!("{}%", (used * 100).div_ceil(total));
        assert!(row.unwrap().ends_with(&percent), "{text}");
        until("the metrics to have the usage", || {
            let shown = gauge(&machine, "volume_stats_used_bytes");
            (shown == Some(used)).then_some(()).ok_or(format!("{shown:?}"))
        });
        assert_eq!(gauge(&machine, "volume_stats_capacity_bytes"), Some(total));
        let inodes = gauge(&machine, "volume_stats_inodes_used");
        assert_eq!(inodes, Some(number("Inodes", "Used")));
        machine.stop("db");
        machine.wait_for("db", "complete", 1);
        machine.assert_no_claims();
        let document: Value = serde_json::from_str(&status(&machine, &["-o", "json"])).unwrap();
        assert_eq!(document["Stats"], serde_json::json!([]));
        machine.end();
    });
}

/// W56: the capacity of the machine is shown, and the error of a create that is larger names it.
#[test]
fn the_capacity_of_the_embedded_plugin_is_shown() {
    let test = "volume_stats::the_capacity_of_the_embedded_plugin_is_shown";
    run_in_namespace_with_devices(test, async {
        let machine = Machine::new();
        machine.create_sized_volume("data", WRITER, "file-system", 64 << 20);
        let address = format!("http://{}", machine.address().tcp());
        let run = |arguments: &[&str]| {
            let mut command = program(arguments);
            command.env("NOMAD_ADDR", &address).output().unwrap()
        };
        let shown = run(&["plugin", "status", "hostpath", "-o", "json"]);
        let plugin: Value = serde_json::from_slice(&shown.stdout).unwrap();
        let capacity = &plugin["Capacity"][0];
        let (left, largest) = (&capacity["Available"], &capacity["MaximumVolumeSize"]);
        assert!(left.as_u64().unwrap() > 0, "{plugin}");
        assert!(largest.as_u64() <= left.as_u64(), "{plugin}");
        assert_eq!(plugin["CapacityUnknown"], Value::Null);
        let text = run(&["plugin", "status", "hostpath"]).stdout;
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("\neverywhere  "), "{text}");
        let file = machine.directory.path().join("large.hcl");
        let specification = "id = \"large\"\nname = \"large\"\ntype = \"csi\"\nplugin_id = \"hostpath\"\n\
            capacity_min = \"1EiB\"\ncapability {\n access_mode = \"single-node-writer\"\n \
            attachment_mode = \"file-system\"\n}\n";
        std::fs::write(&file, specification).unwrap();
        let refused = run(&["volume", "create", "-f", file.to_str().unwrap()]);
        assert!(!refused.status.success());
        let text = String::from_utf8(refused.stderr).unwrap();
        let note = "note: plugin `hostpath` reports: ";
        assert!(text.contains(note) && text.contains(" available, volumes of at most "), "{text}");
        machine.end();
    });
}

/// W56: a mutable parameter of the embedded plugin changes while a task uses the volume, and stays on record.
#[test]
fn a_mutable_parameter_changes_while_the_volume_is_mounted() {
    let test = "volume_stats::a_mutable_parameter_changes_while_the_volume_is_mounted";
    run_in_namespace_with_devices(test, async {
        let machine = Machine::new();
        machine.create_sized_volume("data", WRITER, "file-system", 64 << 20);
        machine.run(&machine.job("db", "service", &volume("data", WRITER), "sleep 600"));
        machine.wait_for("db", "running", 1);
        let address = format!("http://{}", machine.address().tcp());
        let modify = |parameter: &str| {
            let mut command = program(["volume", "modify", "data", parameter]);
            command.env("NOMAD_ADDR", &address).output().unwrap()
        };
        let changed = modify("read_ahead_kib=64");
        assert!(changed.status.success(), "{changed:?}");
        let device = std::fs::read_dir("/sys/block").unwrap().find_map(|entry| {
            let entry = entry.unwrap().path();
            let file = std::fs::read_to_string(entry.join("loop/backing_file")).ok()?;
            let data = machine.data();
            file.contains(data.to_str().unwrap()).then_some(entry)
        });
        let read_ahead = device.unwrap().join("queue/read_ahead_kb");
        let read_ahead = std::fs::read_to_string(read_ahead).unwrap();
        assert_eq!(read_ahead.trim(), "64");
        let refused = modify("read_ahead_kib=many");
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let document: Value = serde_json::from_str(&status(&machine, &["-o", "json"])).unwrap();
        let expected = serde_json::json!({"read_ahead_kib": "64"});
        assert_eq!(document["MutableParameters"], expected);
        assert_eq!(document["ModifyPending"], Value::Null);
        machine.stop("db");
        machine.wait_for("db", "complete", 1);
        machine.assert_no_claims();
        machine.end();
    });
}
