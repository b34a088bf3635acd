//! The volumes of one block with `count`, from the specification to the tasks of a job with `per_alloc`.

use std::path::Path;

use serde_json::json;

use crate::agent_process::program;
use crate::hostpath_fixture::run_in_namespace;
use crate::job_machine::{Machine, WRITER, volume};
use crate::wait::until_true;

/// Runs a command in the directory of the specifications. Returns its exit code and its output on both streams.
fn nomad_csi(machine: &Machine, directory: &Path, line: &str) -> (Option<i32>, String) {
    let mut command = program(line.split(' '));
    command.args(["--address", &format!("http://{}", machine.address().tcp())]);
    let output = command.current_dir(directory).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

/// A count that becomes smaller leaves the data of the last volumes alone: first they stay as they are, with `--prune`
/// they are deregistered, and registered again they have what their tasks wrote.
#[test]
fn a_smaller_count_keeps_the_data_of_the_volumes_that_it_leaves_out() {
    let test =
        "generated_volumes::a_smaller_count_keeps_the_data_of_the_volumes_that_it_leaves_out";
    run_in_namespace(test, async {
        let machine = Machine::new();
        let files = tempfile::tempdir().unwrap();
        let run = |line: &str, expected: i32| {
            let (code, text) = nomad_csi(&machine, files.path(), line);
            assert_eq!(code, Some(expected), "{line}: {text}");
            text
        };
        let text = r#"
            set = "web-${var.env}"
            variable "env" {}
            variable "count" { default = 3 }
            volume "own" {
              count     = var.count
              type      = "csi"
              name      = "${var.env}-${volume.key}"
              plugin_id = "hostpath"
              capability {
                access_mode     = "single-node-writer"
                attachment_mode = "file-system"
              }
            }
        "#;
        std::fs::write(files.path().join("own.hcl"), text).unwrap();
        std::fs::write(files.path().join("prod.vars.hcl"), "env = \"prod\"\n").unwrap();
        let arguments = "-f own.hcl --var-file prod.vars.hcl";
        run("plugin wait hostpath", 0);
        run(&format!("apply --yes {arguments}"), 0);
        run(&format!("plan {arguments}"), 0);

        let mut own = volume("own", WRITER);
        own["PerAlloc"] = json!(true);
        own["Count"] = json!(3);
        let script = "echo $NOMAD_ALLOC_INDEX > /data/index";
        machine.run(&machine.job("own", "batch", &own, script));
        machine.wait_for("own", "complete", 3);
        machine.assert_clean();
        machine.address().ask("DELETE", "/v1/job/own?purge=true", None).unwrap().json();
        until_true("the job to be forgotten", || machine.allocs("own").is_empty());

        let registered = |index: u32| machine.get(&format!("/v1/volume/csi/own[{index}]"));
        let external_id = registered(2)["ExternalID"].as_str().unwrap().to_owned();
        let smaller = format!("{arguments} --var count=2");
        run(&format!("apply --yes {smaller}"), 0);
        assert_eq!(registered(2)["ExternalID"], json!(external_id), "it stays without `--prune`");
        run(&format!("apply --yes --prune --approve needs-downtime:own[2] {smaller}"), 0);
        let ids = || {
            let all = machine.get("/v1/volumes?type=csi");
            let id = |volume: &serde_json::Value| volume["ID"].as_str().unwrap().to_owned();
            all.as_array().unwrap().iter().map(id).collect::<Vec<_>>()
        };
        assert_eq!(ids(), ["own[0]", "own[1]"]);

        let again = format!(
            r#"volume "own[2]" {{
              type        = "csi"
              name        = "again"
              plugin_id   = "hostpath"
              external_id = "{external_id}"
              capability {{
                access_mode     = "single-node-writer"
                attachment_mode = "file-system"
              }}
            }}"#
        );
        std::fs::write(files.path().join("again.hcl"), again).unwrap();
        run("apply --yes -f again.hcl", 0);
        machine.run(&machine.job("own", "batch", &own, "cat /data/index"));
        let mut outputs: Vec<_> = machine
            .wait_for("own", "complete", 3)
            .iter()
            .map(|alloc| machine.output(alloc))
            .collect();
        outputs.sort_unstable();
        assert_eq!(outputs, ["0\n", "1\n", "2\n"]);
        machine.end();
    });
}
