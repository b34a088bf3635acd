//! Host volumes of jobs on real mounts: beside CSI volumes, only for reading, and when the operator takes one
//! away.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::hostpath_fixture::run_in_namespace;
use crate::job_machine::{Machine, WRITER, volume};
use crate::wait::{until, until_true};
use nomad_csi_testing::namespace::mounts;

/// Directories of the machine that its operator offers, each with one file.
struct HostDirectories {
    base: tempfile::TempDir,
}

impl HostDirectories {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        for name in ["shared", "logs"] {
            let directory = base.path().join(name);
            std::fs::create_dir(&directory).unwrap();
            let open = std::fs::Permissions::from_mode(0o777);
            std::fs::set_permissions(&directory, open).unwrap();
            std::fs::write(directory.join("of-host"), format!("{name} of the host\n")).unwrap();
        }
        Self { base }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    /// The arguments of an agent that offers `shared`, and `logs` for reading.
    fn offered(&self) -> [String; 4] {
        let volume = |name: &str, mode: &str| format!("{name}={}{mode}", self.path(name).display());
        let option = || "--host-volume".to_owned();
        [option(), volume("shared", ""), option(), volume("logs", ":ro")]
    }
}

fn host_volume(source: &str, read_only: bool) -> Value {
    json!({"Name": source, "Type": "host", "Source": source, "ReadOnly": read_only})
}

/// A job whose task has these volumes, each at the path of its name.
fn job(machine: &Machine, id: &str, kind: &str, volumes: &[(&str, Value)], script: &str) -> Value {
    let mut job = machine.job(id, kind, &Value::Null, script);
    let group = &mut job["TaskGroups"][0];
    group["Volumes"] = volumes
        .iter()
        .map(|(name, volume)| ((*name).to_owned(), volume.clone()))
        .collect::<serde_json::Map<_, _>>()
        .into();
    group["Tasks"][0]["VolumeMounts"] = volumes
        .iter()
        .map(|(name, _)| json!({"Volume": name, "Destination": format!("/{name}")}))
        .collect();
    job
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn a_task_has_host_and_csi_volumes_and_writes_where_it_may() {
    let test = "jobs_host_volumes::a_task_has_host_and_csi_volumes_and_writes_where_it_may";
    run_in_namespace(test, async {
        let host = HostDirectories::new();
        let machine = Machine::with_options(host.offered());
        machine.create_volume("data", WRITER, "file-system");
        let volumes = [
            ("data", volume("data", WRITER)),
            ("shared", host_volume("shared", false)),
            ("kept", host_volume("shared", true)),
            ("logs", host_volume("logs", true)),
        ];
        let script = "cat /shared/of-host /logs/of-host > /data/copy && cat /data/copy; \
            echo of the task > /shared/of-task && cat /kept/of-task; \
            echo no > /kept/no || echo kept refuses; echo no > /logs/no || echo logs refuse";
        machine.run(&job(&machine, "copy", "batch", &volumes, script));
        let alloc = machine.wait_for("copy", "complete", 1).remove(0);
        assert_eq!(
            machine.output(&alloc),
            "shared of the host\nlogs of the host\nof the task\nkept refuses\nlogs refuse\n"
        );
        machine.assert_clean();
        assert_eq!(text(&host.path("shared").join("of-task")), "of the task\n");
        for (name, file) in [("shared", "no"), ("logs", "no")] {
            assert!(!host.path(name).join(file).exists(), "{name}");
        }
        let data = volume("data", WRITER);
        machine.run(&machine.job("reader", "batch", &data, "cat /data/copy"));
        let reader = machine.wait_for("reader", "complete", 1).remove(0);
        assert_eq!(machine.output(&reader), "shared of the host\nlogs of the host\n");
        machine.end();
    });
}

/// What runs keeps its mount; what is new says what is missing, and starts when it is there.
#[test]
fn a_host_volume_that_is_taken_away_costs_no_running_task_its_mount() {
    let test =
        "jobs_host_volumes::a_host_volume_that_is_taken_away_costs_no_running_task_its_mount";
    run_in_namespace(test, async {
        let host = HostDirectories::new();
        let mut machine = Machine::with_options(host.offered());
        let shared = [("shared", host_volume("shared", false))];
        let script =
            "while ! [ -e /shared/go ]; do sleep 0.05; done; echo went > /shared/went; sleep 600";
        machine.run(&job(&machine, "old", "service", &shared, script));
        let old = machine.wait_for("old", "running", 1).remove(0);
        let mounted = mounts();
        machine.kill();
        machine.start();
        let running = machine.wait_for("old", "running", 1).remove(0);
        assert_eq!(running["ID"], old["ID"]);
        assert_eq!(mounts(), mounted);
        std::fs::write(host.path("shared").join("go"), "").unwrap();
        let went = host.path("shared").join("went");
        until_true("the task to write", || text(&went) == "went\n");
        machine.run(&job(&machine, "new", "batch", &shared, "cat /shared/went"));
        until("the reason", || {
            let evaluations = machine.get("/v1/job/new/evaluations").to_string();
            match evaluations.contains("`shared` is not offered") {
                true => Ok(()),
                false => Err(evaluations),
            }
        });
        assert_eq!(machine.allocs("new"), Vec::<Value>::new());
        machine.kill();
        machine.start_with(host.offered());
        let new = machine.wait_for("new", "complete", 1).remove(0);
        assert_eq!(machine.output(&new), "went\n");
        machine.stop("old");
        machine.wait_for("old", "complete", 1);
        assert_eq!(text(&went), "went\n");
        machine.end();
    });
}
