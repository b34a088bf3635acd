//! A server that sends the responses that a transcript sets, request by request.
//!
//! Use it to test requests and the handling of responses: servers that are old, odd, broken or in a
//! certain state. The server records every request. It sends 501 for a request without a response,
//! and records it as unexpected. By default it identifies itself as Nomad 2.0.5.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use nomad_csi::cli::Interrupts;
use tokio::runtime::Runtime;

use super::http_server::{ReceivedRequest, Reply, Server, response};

/// The response to one request.
#[derive(Clone, Debug)]
pub(crate) struct CannedResponse {
    /// The response of the server.
    pub(crate) reply: Reply,
    /// How often the user presses Ctrl-C during the request.
    pub(crate) interrupts: usize,
}

#[derive(Default)]
struct State {
    responses: BTreeMap<String, VecDeque<CannedResponse>>,
    requests: Vec<String>,
    unexpected: Vec<String>,
}

/// The server, on its own threads.
pub(crate) struct CannedServer {
    server: Server,
    state: Arc<Mutex<State>>,
    /// Runs the server.
    _runtime: Runtime,
}

impl CannedServer {
    /// Starts a server.
    pub(crate) fn start(interrupts: &Interrupts) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("the runtime starts");
        let content = Arc::<Mutex<State>>::default();
        let defaults = [
            // A current Nomad whose token may not list namespaces.
            ("GET /v1/agent/self", 200, r#"{"config":{"Version":{"Version":"2.0.5"}}}"#),
            ("GET /v1/namespaces", 403, "Permission denied"),
            // No set is in the variables.
            ("GET /v1/vars?namespace=default&per_page=1000&prefix=nomad-csi%2Fsets%2F", 200, "[]"),
            // No other volume is registered.
            ("GET /v1/volumes?namespace=*&per_page=2000&type=csi", 200, "[]"),
            // No plugin lists its volumes.
            ("GET /v1/volumes/external", 500, "unimplemented for this plugin"),
            // A Nomad, not an agent.
            ("GET /v1/regions", 200, r#"["global"]"#),
            // No node is known, and no allocation.
            ("GET /v1/nodes", 200, "[]"),
            ("GET /v1/allocations", 200, "[]"),
            // ACLs are disabled.
            (
                "GET /v1/acl/token/self",
                200,
                r#"{"AccessorID":"acls-disabled","Name":"ACLs Disabled Token","Type":"client"}"#,
            ),
        ];
        for (request, status, body) in defaults {
            let canned = CannedResponse {
                reply: response(status, "application/json", &[], body.as_bytes()),
                interrupts: 0,
            };
            let mut content = content.lock().expect("unpoisoned");
            content.responses.insert(request.to_owned(), [canned].into());
        }
        let (script, interrupts) = (Arc::clone(&content), interrupts.clone());
        let server = runtime.block_on(Server::start(move |seen, _| {
            let canned = take_response(&mut script.lock().expect("unpoisoned"), seen);
            (0..canned.interrupts).for_each(|_| interrupts.interrupt());
            canned.reply
        }));
        Self { server, state: content, _runtime: runtime }
    }

    /// The server's URL.
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Sets the response to a request, and drops the earlier ones.
    pub(crate) fn set_response(&self, request: &str, canned: CannedResponse) {
        let mut content = self.state.lock().expect("unpoisoned");
        content.responses.insert(request.to_owned(), [canned].into());
    }

    /// Adds a response to a request, after the earlier ones.
    pub(crate) fn queue_response(&self, request: &str, canned: CannedResponse) {
        let mut content = self.state.lock().expect("unpoisoned");
        let answers = content.responses.entry(request.to_owned()).or_default();
        answers.push_back(canned);
    }

    /// Returns the requests since the last call: `GET /v1/…`, and the body below.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().expect("unpoisoned").requests)
    }

    /// The requests without a response.
    pub(crate) fn unexpected(&self) -> Vec<String> {
        self.state.lock().expect("unpoisoned").unexpected.clone()
    }
}

fn take_response(content: &mut State, seen: &ReceivedRequest) -> CannedResponse {
    let request = seen.line();
    let body = seen.body.trim_end();
    let secrets = seen.header("x-nomad-csi-secrets").unwrap_or_default();
    let parts = [request.as_str(), secrets, body];
    let asked: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    content.requests.push(asked.join("\n"));
    let path = request.split('?').next().unwrap_or_default();
    let has_own = content.responses.contains_key(&request);
    let key = if has_own { &request } else { path };
    let next = content.responses.get_mut(key).and_then(|answers| {
        if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() }
    });
    next.unwrap_or_else(|| {
        content.unexpected.push(request);
        let body = b"no response is set for this request";
        CannedResponse { reply: response(501, "text/plain", &[], body), interrupts: 0 }
    })
}
