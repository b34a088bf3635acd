//! Periodic and parameterized jobs on a real agent: nothing runs before its time or without its values.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::agent_process::program;
use crate::hostpath_fixture::run_in_namespace;
use crate::job_machine::{Machine, WRITER, volume};
use crate::reconcile::address;
use crate::wait::until;

fn children(machine: &Machine, parent: &str) -> Vec<Value> {
    let jobs = machine.get(&format!("/v1/jobs?prefix={parent}/"));
    jobs.as_array().unwrap().clone()
}

/// The argument of the job is part of a path that it removes: without it, the volume would be emptied.
#[test]
fn a_parameterized_job_removes_only_what_its_dispatch_names() {
    let test = "jobs_launching::a_parameterized_job_removes_only_what_its_dispatch_names";
    run_in_namespace(test, async {
        let machine = Machine::new();
        machine.create_volume("data", WRITER, "file-system");
        let data = volume("data", WRITER);
        let fill = "mkdir -p /data/a /data/b; touch /data/a/1 /data/b/2";
        machine.run(&machine.job("fill", "batch", &data, fill));
        machine.wait_for("fill", "complete", 1);
        let script =
            "rm -r /data/${NOMAD_META_set}/* && cat $NOMAD_TASK_DIR/in/payload && ls -R /data";
        let mut job = machine.job("drop-set", "batch", &data, script);
        job["ParameterizedJob"] = json!({"MetaRequired": ["set"], "Payload": "required"});
        job["TaskGroups"][0]["Tasks"][0]["DispatchPayload"] = json!({"File": "in/payload"});
        machine.run(&job);
        let dispatch = |body: &Value| {
            let path = "/v1/job/drop-set/dispatch";
            machine.address().ask("PUT", path, Some(body)).unwrap()
        };
        // "hello", as a payload is sent.
        let payload = "aGVsbG8K";
        for (body, expected) in [
            (json!({"Payload": payload}), "Dispatch did not provide required meta keys: [set]"),
            (
                json!({"Meta": {"set": "a"}}),
                "Payload is not provided but required by parameterized job",
            ),
            (
                json!({"Meta": {"set": "a", "sets": "b"}, "Payload": payload}),
                "Dispatch request included unpermitted metadata keys: [sets]",
            ),
        ] {
            let refused = dispatch(&body);
            assert_eq!((refused.status, refused.text().trim()), (500, expected));
        }
        assert_eq!(children(&machine, "drop-set"), [] as [Value; 0]);
        assert_eq!(machine.allocs("drop-set"), [] as [Value; 0]);
        let done = dispatch(&json!({"Meta": {"set": "a"}, "Payload": payload}));
        assert_eq!(done.status, 200, "{}", done.text());
        let done = done.json();
        let id = done["DispatchedJobID"].as_str().unwrap();
        let alloc = machine.wait_for(id, "complete", 1).remove(0);
        let output = machine.output(&alloc);
        assert!(output.starts_with("hello\n"), "{output}");
        assert!(output.contains("/data/b:\n2\n"), "{output}");
        assert!(!output.contains("1\n"), "{output}");
        let status = program(["job", "status", id])
            .args(["--address", &address(machine.agent())])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&status.stdout);
        assert!(status.status.success() && text.contains(id), "{status:?}");
        let shown = machine.get(&format!("/v1/job/{id}")).to_string();
        assert!(!shown.contains(payload) && !shown.contains("hello"), "{shown}");
        machine.end();
    });
}

/// An agent that is killed between two launches makes none twice.
#[test]
fn a_periodic_job_starts_at_its_times_across_kills_of_the_agent() {
    let test = "jobs_launching::a_periodic_job_starts_at_its_times_across_kills_of_the_agent";
    run_in_namespace(test, async {
        let mut machine = Machine::new();
        machine.create_volume("data", WRITER, "file-system");
        let data = volume("data", WRITER);
        let mut yearly = machine.job("yearly", "batch", &data, "touch /data/too-early");
        yearly["Periodic"] = json!({"Enabled": true, "SpecType": "cron", "Specs": ["@yearly"]});
        machine.run(&yearly);
        let script = "echo $NOMAD_JOB_ID >> /data/launches";
        let mut job = machine.job("tick", "batch", &data, script);
        job["Periodic"] = json!({
            "Enabled": true, "SpecType": "cron", "Specs": ["* * * * * * *"], "ProhibitOverlap": true,
        });
        machine.run(&job);
        for round in 1..=3_usize {
            until("launches", || match children(&machine, "tick").len() {
                enough if enough >= 2 * round => Ok(()),
                few => Err(format!("{few}")),
            });
            machine.kill();
            machine.start();
        }
        machine.stop("tick");
        let ended = |machine: &Machine| {
            let all = children(machine, "tick");
            let is_dead = |child: &&Value| child["Status"] == "dead";
            let dead = all.iter().filter(is_dead).count();
            (dead == all.len()).then_some(all).ok_or(format!("{dead}"))
        };
        let all = until("the launches to end", || ended(&machine));
        assert!(all.iter().all(|child| child["ParentID"] == "tick"), "{all:#?}");
        let mut expected: Vec<String> = vec![];
        for child in &all {
            let id = child["ID"].as_str().unwrap();
            let done = machine.wait_for(id, "complete", 1);
            assert_eq!(machine.allocs(id).len(), done.len(), "{id} ran once");
            expected.push(id.to_owned());
        }
        machine.run(&machine.job("look", "batch", &data, "cat /data/launches; ls /data"));
        let look = machine.wait_for("look", "complete", 1).remove(0);
        let output = machine.output(&look);
        let lines: Vec<&str> = output.lines().filter(|line| line.contains('/')).collect();
        let launched: BTreeSet<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        assert_eq!(launched, expected.iter().cloned().collect(), "{output}");
        assert_eq!(launched.len(), lines.len(), "a launch ran twice: {output}");
        assert!(!output.contains("too-early"), "{output}");
        machine.end();
    });
}
