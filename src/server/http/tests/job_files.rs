//! What tools other than `nomad` and `nomad-csi` ask for: job files as text, versions, counts, pools, and what the agent does
//! not have.

use serde_json::json;

use super::*;
use nomad_csi_claims::state::samples::jobs::{job, job_key};

const FILE: &str = "job \"web\" {\n  group \"g\" {\n    count = 2\n    task \"t\" {\n      driver = \"exec\"\n      \
                    env {\n        NODE = \"${node.unique.name}\"\n      }\n      config {\n        command = \
                    \"true\"\n      }\n    }\n  }\n}\n";

async fn parse(agent: &FakeAgent, body: Value) -> Answer {
    send_line(agent, "POST /v1/jobs/parse", &body.to_string()).await
}

/// Ansible's `nomad_job` sends a file to be parsed, and register what they get.
#[tokio::test(start_paused = true)]
async fn a_parsed_file_is_the_job_that_can_be_registered() {
    let agent = agent().await;
    let parsed = parse(&agent, json!({"JobHCL": FILE, "Canonicalize": true})).await;
    assert_eq!(parsed.status, 200, "{}", parsed.text());
    assert_eq!(parsed.header("Content-Type"), "application/json");
    let document = parsed.json();
    assert_eq!(document["ID"], "web");
    assert_eq!(document["TaskGroups"][0]["Tasks"][0]["Env"]["NODE"], "${node.unique.name}");
    assert_eq!(get(&agent, "/v1/job/web").await.status, 404, "a parsed job is not registered");
    let body = json!({ "Job": document }).to_string();
    let registered = send_line(&agent, "PUT /v1/jobs", &body).await;
    assert_eq!(registered.status, 200, "{}", registered.text());
    let shown = get(&agent, "/v1/job/web").await.json();
    assert_eq!(shown["TaskGroups"][0]["Count"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_file_is_refused_with_its_positions() {
    let agent = agent().await;
    let wrong = FILE.replace("count = 2", "cout = 2");
    for (body, expected) in [
        (json!({"JobHCL": wrong}), "JobHCL:3:5: "),
        (json!({"JobHCL": "job \"x\" {"}), "JobHCL:1:"),
        (json!({"JobHCL": " "}), "Job spec is empty"),
        (json!({}), "Job spec is empty"),
        (json!({"JobHCL": FILE, "hclv1": true}), "HCL2"),
        (json!({"JobHCL": FILE, "Variables": "x = 1"}), "`Variables` is not supported"),
    ] {
        let refused = parse(&agent, body.clone()).await;
        assert_eq!(refused.status, 400, "{body}: {}", refused.text());
        assert!(refused.text().contains(expected), "{body}: {}", refused.text());
    }
    let secret =
        "job \"x\" {\n  group \"g\" {\n    task \"t\" {\n      env {\n        TOKEN = hunter2(\n";
    let refused = parse(&agent, json!({"JobHCL": secret})).await;
    assert!(!refused.text().contains("hunter2"), "{}", refused.text());
}

#[tokio::test(start_paused = true)]
async fn a_job_has_its_newest_version_and_its_counts() {
    let agent = agent().await;
    let body = json!({"Job": job_to_wire(&job(&job_key("web")))}).to_string();
    assert_eq!(send_line(&agent, "PUT /v1/jobs", &body).await.status, 200);
    let versions = get(&agent, "/v1/job/web/versions").await.json();
    assert_eq!(versions["Versions"].as_array().unwrap().len(), 1);
    assert_eq!(versions["Versions"][0]["Version"], 0);
    assert_eq!(versions["Versions"][0]["Stable"], false, "Nomad's command line reads it");
    assert_eq!(versions["Diffs"], Value::Null);
    let scale = get(&agent, "/v1/job/web/scale").await.json();
    assert_eq!((&scale["JobID"], &scale["JobStopped"]), (&json!("web"), &json!(false)));
    assert_eq!(scale["TaskGroups"]["g"]["Desired"], 1);
    let index = scale["JobModifyIndex"].as_u64().unwrap();
    let body = json!({"Count": 3, "Target": {"Namespace": "default", "Job": "web", "Group": "g"}});
    let scaled = send_line(&agent, "POST /v1/job/web/scale", &body.to_string()).await;
    assert_eq!(scaled.status, 200, "{}", scaled.text());
    assert!(scaled.json()["JobModifyIndex"].as_u64().unwrap() > index);
    let scale = get(&agent, "/v1/job/web/scale").await.json();
    assert_eq!(scale["TaskGroups"]["g"]["Desired"], 3);
    assert_eq!(get(&agent, "/v1/job/web/versions").await.json()["Versions"][0]["Version"], 1);
    for (line, body, status, expected) in [
        ("POST /v1/job/web/scale", json!({"Count": 1, "Target": {"Group": "h"}}), 400, "no group"),
        ("POST /v1/job/web/scale", json!({"Target": {"Group": "g"}}), 400, "`Count` is missing"),
        ("POST /v1/job/web/scale", json!({"Count": -1, "Target": {"Group": "g"}}), 500, "negative"),
        (
            "POST /v1/job/web/scale",
            json!({"Count": 1, "Target": {"Namespace": "team", "Group": "g"}}),
            400,
            "namespace \"team\" in payload",
        ),
        (
            "POST /v1/job/web/scale",
            json!({"Count": 1, "Target": {"Job": "db", "Group": "g"}}),
            400,
            "does not match",
        ),
        ("POST /v1/job/nope/scale", json!({"Count": 1, "Target": {"Group": "g"}}), 404, "job not"),
    ] {
        let refused = send_line(&agent, line, &body.to_string()).await;
        assert_eq!(refused.status, status, "{body}: {}", refused.text());
        assert!(refused.text().contains(expected), "{body}: {}", refused.text());
    }
    send_line(&agent, "DELETE /v1/job/web", "").await;
    let body = json!({"Count": 1, "Target": {"Group": "g"}}).to_string();
    let refused = send_line(&agent, "POST /v1/job/web/scale", &body).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(refused.text().contains("is stopped"), "{}", refused.text());
}

#[tokio::test(start_paused = true)]
async fn a_job_returns_to_an_earlier_version() {
    let agent = agent().await;
    let with_count = |count: i64| {
        let mut web = job(&job_key("web"));
        web.groups[0].count = count;
        json!({"Job": job_to_wire(&web)}).to_string()
    };
    for count in [1, 2] {
        assert_eq!(send_line(&agent, "PUT /v1/jobs", &with_count(count)).await.status, 200);
    }
    let versions = async || {
        let document = get(&agent, "/v1/job/web/versions").await.json();
        let versions = document["Versions"].as_array().unwrap().clone();
        let shown = versions.iter().map(|one| {
            assert!(one["SubmitTime"].as_i64().is_some() && one["Stable"] == false, "{one}");
            (one["Version"].as_u64().unwrap(), one["TaskGroups"][0]["Count"].as_i64().unwrap())
        });
        shown.collect::<Vec<_>>()
    };
    assert_eq!(versions().await, [(1, 2), (0, 1)]);
    let revert = "POST /v1/job/web/revert";
    for (line, body, status, expected) in [
        (revert, json!({"JobID": "web"}), 400, "`JobVersion` is missing"),
        (revert, json!({"JobID": "api", "JobVersion": 0}), 400, "does not match"),
        (revert, json!({"JobVersion": 1}), 500, "version 1 is the newest one"),
        (revert, json!({"JobVersion": 7}), 500, "version 7 is not on record, only 1, 0"),
        (revert, json!({"JobVersion": 0, "EnforcePriorVersion": 0}), 500, "newest version is 1"),
        ("POST /v1/job/api/revert", json!({"JobVersion": 0}), 404, "job not found"),
        ("GET /v1/job/web/versions?diffs=true", json!({}), 501, "without `diffs`"),
        ("GET /v1/job/web/revert", json!({}), 405, "Invalid method"),
    ] {
        let refused = send_line(&agent, line, &body.to_string()).await;
        assert_eq!(refused.status, status, "{body}: {}", refused.text());
        assert!(refused.text().contains(expected), "{body}: {}", refused.text());
    }
    let body = json!({"JobID": "web", "JobVersion": 0, "EnforcePriorVersion": 1}).to_string();
    let reverted = send_line(&agent, revert, &body).await;
    assert_eq!(reverted.status, 200, "{}", reverted.text());
    assert_ne!(reverted.json()["EvalID"], "");
    assert_eq!(versions().await, [(2, 1), (1, 2), (0, 1)]);
    send_line(&agent, "DELETE /v1/job/web", "").await;
    let body = json!({"JobVersion": 2}).to_string();
    assert_eq!(send_line(&agent, revert, &body).await.status, 200, "a stopped job starts");
    assert_eq!(get(&agent, "/v1/job/web").await.json()["Stop"], false);
}

#[tokio::test(start_paused = true)]
async fn the_node_pools_are_those_of_every_agent() {
    let agent = agent().await;
    let pools = get(&agent, "/v1/node/pools").await.json();
    let names: Vec<_> = pools.as_array().unwrap().iter().map(|pool| &pool["Name"]).collect();
    assert_eq!(names, ["all", "default"]);
    assert_eq!(get(&agent, "/v1/node/pool/default").await.json()["Name"], "default");
}

/// Clients of Nomad take 404 for "there is none", and anything else for an error with a text.
#[tokio::test(start_paused = true)]
async fn a_path_of_nomad_that_the_agent_has_not_is_answered_in_words() {
    let agent = agent().await;
    for (line, status, expected) in [
        ("GET /v1/job/web/submission?version=0", 404, "text of a job file"),
        ("POST /v1/job/web/stable", 501, "does not mark"),
        ("PUT /v1/job/web/versions/x/tag", 501, "does not mark"),
        ("GET /v1/client/fs/stream/x?path=/", 501, "alloc logs"),
        ("GET /v1/client/allocation/x/exec", 501, "alloc restart"),
        ("GET /v1/client/stats", 501, "does not measure"),
        ("GET /v1/client/allocation/x/stats", 404, "does not measure"),
        ("GET /v1/jobs/statuses", 501, "GET /v1/jobs"),
        ("GET /v1/operator/scheduler/configuration", 501, "no settings"),
        ("POST /v1/node/pool/new", 501, "node pools"),
        ("GET /v1/acl/roles", 501, "no roles"),
        ("GET /ui/", 501, "no web interface"),
        ("GET /", 501, "no web interface"),
    ] {
        let answer = send_line(&agent, line, "{}").await;
        assert_eq!(answer.status, status, "{line}: {}", answer.text());
        assert!(answer.text().contains(expected), "{line}: {}", answer.text());
        assert_eq!(answer.header("Content-Type"), "text/plain; charset=utf-8", "{line}");
        let typed = send_typed(&agent, line, "{}").await;
        assert_eq!(
            (typed.status, typed.json()["code"].as_str()),
            (status, Some("server/unknown-path"))
        );
    }
    for line in ["GET /v1/nope", "POST /v2/jobs", "GET /v1/jobs/"] {
        let answer = send_line(&agent, line, "{}").await;
        assert_eq!((answer.status, answer.text()), (404, NO_ENDPOINT), "{line}");
    }
}
