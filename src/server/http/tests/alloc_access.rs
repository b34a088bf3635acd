//! Restarts, signals and files of allocations, with a node that records what it is asked.

use async_trait::async_trait;
use parking_lot::Mutex;

use super::*;
use nomad_csi_claims::state::samples::jobs::{
    alloc_placed, alloc_reported, job_key, job_registered,
};
use nomad_csi_model::{AllocId, ClientStatus};
use nomad_csi_ports::{AllocAccess, AllocAccessError, AllocFile};

/// A node with one directory, and one file that is longer than a piece.
#[derive(Default)]
struct OneFile {
    asked: Mutex<Vec<String>>,
}

const LENGTH: u64 = 150_000;

impl OneFile {
    fn note(&self, text: String) {
        self.asked.lock().push(text);
    }
}

fn file(name: &str, is_directory: bool) -> AllocFile {
    let mode = if is_directory { 0o040_755 } else { 0o100_640 };
    let modified = 1_795_315_546_000_000_000;
    AllocFile { name: name.to_owned(), is_directory, size: LENGTH, mode, modified }
}

#[async_trait]
impl AllocAccess for OneFile {
    async fn restart(&self, alloc: &AllocId, task: Option<&str>) -> Result<(), AllocAccessError> {
        self.note(format!("restart {alloc} {task:?}"));
        Ok(())
    }

    async fn signal(
        &self,
        alloc: &AllocId,
        task: Option<&str>,
        signal: &str,
    ) -> Result<(), AllocAccessError> {
        self.note(format!("signal {alloc} {task:?} {signal}"));
        match signal {
            "SIGHUP" => Ok(()),
            "SIGUSR1" => Err(AllocAccessError::NotRunning("task `t` does not run".to_owned())),
            _ => Err(AllocAccessError::Refused(format!("`{signal}` is not a signal"))),
        }
    }

    async fn stat(&self, _: &AllocId, path: &str) -> Result<AllocFile, AllocAccessError> {
        match path {
            "/" => Ok(file(".", true)),
            "alloc/big" => Ok(file("big", false)),
            path => Err(AllocAccessError::NoFile(format!("there is no `{path}`"))),
        }
    }

    async fn list(&self, _: &AllocId, _: &str) -> Result<Vec<AllocFile>, AllocAccessError> {
        Ok(vec![file("alloc", true), file("big", false)])
    }

    async fn read(
        &self,
        _: &AllocId,
        _: &str,
        offset: u64,
        limit: u64,
    ) -> Result<Vec<u8>, AllocAccessError> {
        assert!(limit <= 64 << 10, "{limit}");
        // The file has grown in the meantime.
        Ok((offset..offset + limit).map(|at| b'a' + u8::try_from(at % 26).unwrap()).collect())
    }
}

/// An agent with allocation `a1` of a job, and its node.
async fn agent_with_files() -> (FakeAgent, Arc<OneFile>) {
    let agent = agent().await;
    let key = job_key("web");
    agent.record_event(job_registered(&key)).await;
    agent.record_event(alloc_placed(&key, "a1", FakeAgent::NODE)).await;
    let node = Arc::new(OneFile::default());
    agent.hosts.set_allocs(node.clone());
    (agent, node)
}

const RESTART: &str = "PUT /v1/client/allocation/a1/restart";
const SIGNAL: &str = "POST /v1/client/allocation/a1/signal";

#[tokio::test(start_paused = true)]
async fn tasks_are_restarted_and_get_signals_through_their_node() {
    let (agent, node) = agent_with_files().await;
    for (line, body, status, expected) in [
        (RESTART, json!({"TaskName": "", "AllTasks": false}), 200, "Index"),
        (RESTART, json!({"TaskName": "t"}), 200, "Index"),
        (RESTART, json!({"TaskName": "x"}), 400, "has no task \"x\": it has t"),
        (RESTART, json!({"AllTasks": true}), 400, "`AllTasks` is not supported"),
        (SIGNAL, json!({"Task": "t", "Signal": "SIGHUP"}), 200, "Index"),
        (SIGNAL, json!({"Signal": "SIGUSR1"}), 500, "does not run"),
        (SIGNAL, json!({"Signal": "SIGSOON"}), 400, "is not a signal"),
        (SIGNAL, json!({"Task": "t"}), 400, "`Signal` is missing"),
        ("PUT /v1/client/allocation/a2/restart", json!({}), 404, "Unknown allocation"),
        ("GET /v1/client/allocation/a1/restart", json!({}), 405, "Invalid method"),
    ] {
        let answer = send_line(&agent, line, &body.to_string()).await;
        assert_eq!(answer.status, status, "{line} {body}: {}", answer.text());
        assert!(answer.text().contains(expected), "{line} {body}: {}", answer.text());
    }
    let expected = [
        "restart a1 None",
        "restart a1 Some(\"t\")",
        "signal a1 Some(\"t\") SIGHUP",
        "signal a1 None SIGUSR1",
        "signal a1 None SIGSOON",
    ];
    assert_eq!(*node.asked.lock(), expected);
    agent.record_event(alloc_reported("a1", ClientStatus::Complete)).await;
    let ended = send_line(&agent, RESTART, "{}").await;
    assert_eq!((ended.status, ended.text()), (500, "allocation `a1` has ended"));
}

#[tokio::test(start_paused = true)]
async fn the_files_of_an_allocation_are_those_of_its_node() {
    let (agent, _node) = agent_with_files().await;
    let listed = get(&agent, "/v1/client/fs/ls/a1?path=/").await.json();
    let expected = json!({
        "ContentType": "", "FileMode": "drwxr-xr-x", "IsDir": true, "ModTime": "2026-11-22T02:45:46Z",
        "Name": "alloc", "Size": LENGTH,
    });
    assert_eq!(listed[0], expected);
    let stat = get(&agent, "/v1/client/fs/stat/a1?path=alloc/big").await.json();
    assert_eq!((&stat["FileMode"], &stat["Name"]), (&json!("-rw-r-----"), &json!("big")));
    let whole = get(&agent, "/v1/client/fs/cat/a1?path=alloc/big").await;
    assert_eq!(whole.text().len(), 150_000, "not what it has grown by");
    let text: String = (0..100_u8).map(|at| char::from(b'a' + (at + 50) % 26)).collect();
    let part = get(&agent, "/v1/client/fs/readat/a1?path=alloc/big&offset=50&limit=100").await;
    assert_eq!(part.text(), text);
    for (path, status, expected) in [
        ("/v1/client/fs/cat/a1?path=alloc/x", 404, "there is no `alloc/x`"),
        ("/v1/client/fs/cat/a1", 400, "is a directory"),
        ("/v1/client/fs/readat/a1?path=alloc/big&offset=x&limit=1", 400, "`offset` must be"),
        ("/v1/client/fs/ls/a2", 404, "Unknown allocation"),
    ] {
        let refused = get(&agent, path).await;
        assert_eq!(refused.status, status, "{path}: {}", refused.text());
        assert!(refused.text().contains(expected), "{path}: {}", refused.text());
    }
}
