//! `volume doctor` on a volume in use of which a node reports a condition.

use serde_json::Value;

use crate::agent_process::program;
use crate::hostpath_fixture::run_in_namespace_with_devices;
use crate::job_machine::{Machine, WRITER, volume};
use crate::wait::until;

/// Returns the exit status of a diagnosis, and the rules of its findings.
fn diagnosis(machine: &Machine, arguments: &[&str]) -> (i32, Vec<String>) {
    let mut command = program(["volume", "doctor", "-o", "json"]);
    command.args(arguments);
    command.env("NOMAD_ADDR", format!("http://{}", machine.address().tcp()));
    let output = command.output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let volumes = document["volumes"].as_array().unwrap().iter();
    let findings = volumes.flat_map(|volume| volume["findings"].as_array().unwrap());
    let rules = findings.map(|finding| finding["rule"].as_str().unwrap().to_owned());
    (output.status.code().unwrap(), rules.collect())
}

#[test]
fn what_only_a_node_reports_is_found() {
    let test = "doctor_health::what_only_a_node_reports_is_found";
    run_in_namespace_with_devices(test, async {
        for (condition, expected, status) in [
            ("device-lost", "volume-inaccessible", 3),
            ("read-only", "condition-abnormal", 2),
            ("file-system-errors", "condition-abnormal", 2),
            ("storage-failed", "volume-inaccessible", 3),
            ("no-space", "condition-abnormal", 2),
            ("data-truncated", "data-lost", 3),
        ] {
            let fault = format!("health:{condition}");
            let machine = Machine::with_options(["--plugin-fault", &fault]);
            machine.create_sized_volume("data", WRITER, "file-system", 32 << 20);
            machine.run(&machine.job("db", "service", &volume("data", WRITER), "sleep 600"));
            machine.wait_for("db", "running", 1);
            for arguments in [&["data"][..], &["--all"]] {
                until(&format!("the finding about {condition}"), || {
                    let (found, rules) = diagnosis(&machine, arguments);
                    let is_found = found == status && rules.iter().any(|rule| rule == expected);
                    let text = format!("{arguments:?}: {found} {rules:?}");
                    is_found.then_some(()).ok_or(text)
                });
            }
            let (_, unasked) = diagnosis(&machine, &["data", "--no-provider"]);
            assert!(
                !unasked.iter().any(|rule| rule == expected),
                "{condition}: {unasked:?}"
            );
            machine.stop("db");
            machine.wait_for("db", "complete", 1);
            machine.end();
        }
    });
}
