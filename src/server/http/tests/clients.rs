//! What Nomad's own command line, Go client and Terraform's provider send, beyond what the agent does: the answer says so, and
//! none of them takes anything for a success that did nothing.

use serde_json::json;

use super::*;
use nomad_csi_claims::state::samples::jobs::{job, job_key};
use nomad_csi_claims::state::{EvaluationStatus, Table, Topic};
use nomad_csi_model::{JobType, TaskEnvironment};
use nomad_csi_wire::job_to_wire;

/// A job with a value that no response shows.
fn secret_job(id: &str) -> Value {
    let mut job = job(&job_key(id));
    job.groups[0].tasks[0].environment = TaskEnvironment::from_iter([("TOKEN", "hunter2")]);
    json!(job_to_wire(&job))
}

async fn run(agent: &FakeAgent, job: &Value) -> Answer {
    let body = json!({ "Job": job }).to_string();
    send_line(agent, "PUT /v1/jobs", &body).await
}

/// `nomad job start` sends back what it was shown, and ignores a refusal.
#[tokio::test(start_paused = true)]
async fn a_stopped_job_that_comes_back_as_it_was_shown_is_started() {
    let agent = agent().await;
    assert_eq!(run(&agent, &secret_job("web")).await.status, 200);
    let shown = get(&agent, "/v1/job/web").await.json();
    let environment = &shown["TaskGroups"][0]["Tasks"][0]["Env"];
    assert_ne!(environment["TOKEN"], json!("hunter2"));
    let refused = run(&agent, &shown).await;
    assert_eq!(refused.status, 500, "it runs: {}", refused.text());
    send_line(&agent, "DELETE /v1/job/web", "").await;
    let mut shown = get(&agent, "/v1/job/web").await.json();
    assert_eq!(shown["Stop"], json!(true));
    let kept = run(&agent, &shown).await;
    assert_eq!(kept.status, 500, "it stays stopped: {}", kept.text());
    assert!(kept.text().contains("'Stop'"), "{}", kept.text());
    let mut new = secret_job("new");
    new["Stop"] = json!(true);
    assert_eq!(run(&agent, &new).await.status, 500, "a new one that is stopped");
    shown["Stop"] = json!(false);
    let mut changed = shown.clone();
    changed["TaskGroups"][0]["Count"] = json!(2);
    assert_eq!(run(&agent, &changed).await.status, 500, "a changed one");
    let mut added = shown.clone();
    let template = json!([{"DestPath": "local/x", "EmbeddedTmpl": "x"}]);
    added["TaskGroups"][0]["Tasks"][0]["Templates"] = template;
    assert_eq!(run(&agent, &added).await.status, 500, "one with a refused part");
    let stale = json!({"Job": shown, "EnforceIndex": true, "JobModifyIndex": 1}).to_string();
    let refused = send_line(&agent, "PUT /v1/jobs", &stale).await;
    assert_ne!(refused.status, 200, "an index that is not the job's: {}", refused.text());
    assert!(agent.services.jobs.job(&job_key("web")).unwrap().is_stopped);
    let started = run(&agent, &shown).await;
    assert_eq!(started.status, 200, "{}", started.text());
    let known = agent.services.jobs.job(&job_key("web")).unwrap();
    assert!(!known.is_stopped);
    let complete = agent.services.jobs.complete(&known).unwrap();
    let environment = &complete.groups[0].tasks[0].environment;
    assert_eq!(environment.get("TOKEN"), Some("hunter2"));
}

/// `nomad job tag unset` asks for a DELETE below the path of a job.
#[tokio::test(start_paused = true)]
async fn an_endpoint_that_the_agent_has_not_is_no_job() {
    let agent = agent().await;
    for id in ["w", "w/versions/x/tag"] {
        run(&agent, &json!(job_to_wire(&job(&job_key(id))))).await;
    }
    let refused = send_line(&agent, "DELETE /v1/job/w/versions/x/tag", "").await;
    assert_eq!(refused.status, 501, "{}", refused.text());
    let force = json!({"JobID": "w", "EvalOptions": {"ForceReschedule": true}}).to_string();
    let refused = send_line(&agent, "PUT /v1/job/w/evaluate", &force).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(refused.text().contains("ForceReschedule"), "{}", refused.text());
    let plain = json!({"JobID": "w", "EvalOptions": {}}).to_string();
    for body in [plain.as_str(), ""] {
        let evaluated = send_line(&agent, "PUT /v1/job/w/evaluate", body).await;
        assert_eq!(evaluated.status, 200, "{}", evaluated.text());
    }
}

/// Clients go to the address of a node with their token.
#[tokio::test(start_paused = true)]
async fn a_node_has_no_address() {
    let agent = agent().await;
    let node = get(&agent, &format!("/v1/node/{}", FakeAgent::NODE)).await;
    assert_eq!(node.json()["HTTPAddr"], json!(""));
    let own = get(&agent, "/v1/agent/self").await.json();
    assert_eq!(own["config"]["UI"]["ShowCLIHints"], json!(false));
}

#[tokio::test(start_paused = true)]
async fn lists_have_pages_and_filters() {
    let agent = agent().await;
    for id in ["a", "b", "c"] {
        run(&agent, &json!(job_to_wire(&job(&job_key(id))))).await;
    }
    agent.add_namespaces(&["ops"]).await;
    let ids = async |uri: &str, field: &str| {
        let answer = get(&agent, uri).await;
        assert_eq!(answer.status, 200, "{uri}: {}", answer.text());
        let list = answer.json();
        let ids = list.as_array().unwrap().iter();
        let ids: Vec<_> = ids.map(|one| one[field].as_str().unwrap().to_owned()).collect();
        let next = answer.headers.get(NEXT_TOKEN);
        (ids, next.map(|next| next.to_str().unwrap().to_owned()))
    };
    let (first, next) = ids("/v1/jobs?per_page=2", "ID").await;
    assert_eq!(first, ["a", "b"]);
    let uri = format!("/v1/jobs?per_page=2&next_token={}", next.unwrap().replace('%', "%25"));
    assert_eq!(ids(&uri, "ID").await, (vec!["c".to_owned()], None));
    let (found, _) = ids("/v1/jobs?per_page=1&filter=ID+%3D%3D+c", "ID").await;
    assert_eq!(found, ["c"]);
    let (found, _) = ids("/v1/namespaces?filter=Name+%3D%3D+ops", "Name").await;
    assert_eq!(found, ["ops"]);
    assert_eq!(ids("/v1/nodes?filter=Name+%3D%3D+nope", "ID").await.0, [] as [&str; 0]);
    let all = ids("/v1/evaluations", "JobID").await.0;
    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!(ids("/v1/evaluations?job=b", "JobID").await.0, ["b"]);
    assert_eq!(ids("/v1/evaluations?status=canceled", "JobID").await.0, [] as [&str; 0]);
    let (newest, next) = ids("/v1/evaluations?per_page=1", "JobID").await;
    assert_eq!(newest, all[..1]);
    let uri = format!("/v1/evaluations?next_token={}", next.unwrap().replace('%', "%25"));
    assert_eq!(ids(&uri, "JobID").await.0, all[1..]);
    let unknown = get(&agent, "/v1/nodes?filter=Nope+%3D%3D+x").await;
    assert_eq!(unknown.status, 400, "{}", unknown.text());
}

/// Register, plan and validate name what they ignore.
#[tokio::test(start_paused = true)]
async fn what_is_ignored_of_a_job_is_a_warning() {
    let agent = agent().await;
    let mut document = json!(job_to_wire(&job(&job_key("web"))));
    document["TaskGroups"][0]["Networks"] = json!([{"Mode": "bridge"}]);
    let body = json!({ "Job": document }).to_string();
    let expected = "`network` is ignored: it does not concern volumes";
    for line in ["PUT /v1/validate/job", "PUT /v1/job/web/plan", "PUT /v1/jobs"] {
        let answer = send_line(&agent, line, &body).await.json();
        let warnings = answer["Warnings"].as_str().unwrap();
        assert!(warnings.starts_with(expected), "{line}: {warnings}");
    }
}

/// As `terraform destroy` does with a job and its namespace. What still runs, or has a claim, keeps both.
#[tokio::test(start_paused = true)]
async fn a_namespace_is_deleted_with_its_stopped_jobs() {
    for (purges, is_placed) in [("", false), ("&purge=true", false), ("", true)] {
        let agent = agent().await;
        agent.add_namespaces(&["ops"]).await;
        let mut ours = job(&job_key("web"));
        ours.namespace = "ops".into();
        if !is_placed {
            ours.datacenters = vec!["elsewhere".to_owned()];
        }
        run(&agent, &json!(job_to_wire(&ours))).await;
        if is_placed {
            let mut watch = agent.cell.watch(vec![Topic::all(Table::Allocs)]);
            while agent.cell.read(|state| state.allocs_of_job(&ours.key()).count()) == 0 {
                watch.changed().await.unwrap();
            }
        }
        let refused = send_line(&agent, "DELETE /v1/namespace/ops", "").await;
        assert_eq!(refused.status, 500, "it was not stopped");
        let line = format!("DELETE /v1/job/web?namespace=ops{purges}");
        assert_eq!(send_line(&agent, &line, "").await.status, 200);
        let deleted = send_line(&agent, "DELETE /v1/namespace/ops", "").await;
        if is_placed {
            let expected = "namespace \"ops\" has non-terminal allocations in regions: [global]";
            assert_eq!((deleted.status, deleted.text()), (500, expected));
            continue;
        }
        assert_eq!((deleted.status, deleted.text()), (200, ""), "{purges}");
        let jobs = get(&agent, "/v1/jobs?namespace=*").await.json();
        assert_eq!(jobs, json!([]));
    }
}

/// As in Nomad, and as a client shows it that waits for the job to run.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_placed_nowhere_is_pending() {
    let agent = agent().await;
    for (id, job_type, expected) in [
        ("web", JobType::Service, "pending"),
        ("backup", JobType::Batch, "pending"),
        ("plugin", JobType::System, "running"),
    ] {
        let mut ours = job(&job_key(id));
        ours.job_type = job_type;
        ours.datacenters = vec!["elsewhere".to_owned()];
        run(&agent, &json!(job_to_wire(&ours))).await;
        let mut watch = agent.cell.watch(vec![Topic::all(Table::Jobs)]);
        let is_blocked = || {
            agent.cell.read(|state| {
                let known = state.job(&ours.key()).unwrap();
                let mut evaluations = known.evaluations.iter();
                evaluations.all(|one| one.result.status != EvaluationStatus::Pending)
            })
        };
        while !is_blocked() {
            watch.changed().await.unwrap();
        }
        let read = get(&agent, &format!("/v1/job/{id}")).await.json();
        assert_eq!(read["Status"], json!(expected), "{id}");
    }
}
