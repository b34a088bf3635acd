//! What may be secret of a job is in no answer, log or byte of the journal, and a job that is sent back without it is
//! refused.

use serde_json::{Value, json};

use crate::agent_process::program;
use crate::hostpath_fixture::run_in_namespace;
use crate::job_machine::{Machine, WRITER, volume};
use crate::reconcile::address;
use crate::wait::until;

/// A job in which everything that may be secret is a canary. Its task cannot start, and the driver says why.
fn secret_job(machine: &Machine, id: &str) -> Value {
    let mut volume = volume("data", WRITER);
    volume["MountOptions"] = json!({"FSType": "", "MountFlags": ["password=canary-flag"]});
    let mut job = machine.job(id, "batch", &volume, "canary-script");
    job["Meta"] = json!({"canary-meta-key": "canary-meta-value"});
    let group = &mut job["TaskGroups"][0];
    group["ReschedulePolicy"] = json!({"Attempts": 0, "Unlimited": false});
    let task = &mut group["Tasks"][0];
    task["Env"] = json!({"CANARY_NAME": "canary-environment"});
    task["Config"] = json!({"command": "/canary-command", "args": ["canary-argument"]});
    job
}

/// "canary-payload", as a payload is sent.
const PAYLOAD: &str = "Y2FuYXJ5LXBheWxvYWQ=";

fn assert_hidden(what: &str, text: &str) {
    let text = text.to_lowercase();
    // `canary` alone is a field of Nomad.
    let payload = PAYLOAD.to_lowercase();
    let secrets = ["canary-", "canary_name", &payload];
    let at = secrets.iter().find_map(|secret| text.find(*secret));
    let around = at.map(|at| text[at.saturating_sub(200)..].chars().take(300).collect::<String>());
    assert_eq!(around, None, "{what}");
}

#[test]
fn no_answer_and_no_byte_of_the_journal_has_a_secret_of_a_job() {
    let test = "secrets_of_jobs::no_answer_and_no_byte_of_the_journal_has_a_secret_of_a_job";
    run_in_namespace(test, async {
        let machine = Machine::new();
        machine.create_volume("data", WRITER, "file-system");
        let job = secret_job(&machine, "secret");
        machine.run(&job);
        let mut plain = secret_job(&machine, "failing");
        plain["TaskGroups"][0]["Volumes"] = json!({});
        plain["TaskGroups"][0]["Tasks"][0]["VolumeMounts"] = json!([]);
        machine.run(&plain);
        plain["ID"] = json!("template");
        plain["Name"] = json!("template");
        plain["ParameterizedJob"] = json!({"MetaRequired": ["set"]});
        machine.run(&plain);
        let values = json!({"Meta": {"set": "canary-dispatched"}, "Payload": PAYLOAD});
        let made = machine.put("/v1/job/template/dispatch", &values);
        let dispatched = made["DispatchedJobID"].as_str().unwrap();
        machine.wait_for(dispatched, "failed", 1);
        let failed = machine.wait_for("failing", "failed", 1).remove(0);
        let alloc = failed["ID"].as_str().unwrap().to_owned();
        until("the volume's problem", || {
            let claims = machine.claims();
            match claims.iter().any(|claim| claim.to_string().contains("password")) {
                true => Err(format!("{claims:?}")),
                false => Ok(()),
            }
        });
        let nodes = machine.get("/v1/nodes");
        let node = nodes[0]["ID"].as_str().unwrap().to_owned();
        for path in [
            "/v1/jobs".to_owned(),
            "/v1/job/secret".to_owned(),
            "/v1/job/failing".to_owned(),
            "/v1/job/template".to_owned(),
            format!("/v1/job/{dispatched}"),
            format!("/v1/job/{dispatched}/allocations"),
            format!("/v1/job/{dispatched}/evaluations"),
            "/v1/job/secret/allocations".to_owned(),
            "/v1/job/failing/allocations".to_owned(),
            "/v1/job/failing/evaluations".to_owned(),
            "/v1/allocations".to_owned(),
            "/v1/evaluations".to_owned(),
            format!("/v1/allocation/{alloc}"),
            format!("/v1/node/{node}/allocations"),
            "/v1/volume/csi/data".to_owned(),
            "/v1/volumes/claims?type=csi&namespace=*".to_owned(),
        ] {
            let answer = machine.address().ask("GET", &path, None).unwrap();
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            assert_hidden(&path, &answer.text());
        }
        let shown = machine.get("/v1/job/secret");
        let task = &shown["TaskGroups"][0]["Tasks"][0];
        let mark = json!({"[REDACTED]": "[REDACTED]"});
        for hidden in [&shown["Meta"], &task["Env"], &task["Config"]] {
            assert_eq!(hidden, &mark, "{shown}");
        }
        let back = json!({ "Job": shown });
        for path in ["/v1/jobs", "/v1/job/secret/plan"] {
            let refused = machine.address().ask("PUT", path, Some(&back)).unwrap();
            assert!(refused.status >= 400, "{path}: {}", refused.text());
            assert!(refused.text().contains("[REDACTED]"), "{}", refused.text());
        }
        let planned = machine.put("/v1/job/secret/plan", &json!({"Job": job, "Diff": true}));
        assert_hidden("the plan", &planned.to_string());
        for line in [
            "job inspect secret",
            "alloc status",
            "job status failing",
            "job status template",
            "job inspect template",
            "volume doctor data",
        ] {
            let output = program(line.split(' '))
                .args(["--address", &address(machine.agent())])
                .output()
                .unwrap();
            let text = [output.stdout, output.stderr].concat();
            assert_hidden(line, &String::from_utf8_lossy(&text));
        }
        assert_hidden("the log", &machine.agent().log().join("\n"));
        let journal = machine.data().join("journal.redb");
        let bytes = std::fs::read(journal).unwrap();
        assert_hidden("the journal", &String::from_utf8_lossy(&bytes));
        machine.stop("secret");
        machine.stop("failing");
        machine.stop("template");
        machine.end();
    });
}
