//! A server that answers what a transcript told it, request by request.
//!
//! It is for conversations in which what matters is what is asked and what is made of the answer:
//! servers that are old, odd, broken, or just in a certain state. Everything that it is asked is
//! recorded. A request that nobody told it the answer of is answered 501 and recorded as unexpected. Who it is,
//! it says unasked: a Nomad 2.0.5.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use nomad_csi::cli::Interrupts;
use tokio::runtime::Runtime;

use super::http_server::{Answer, Seen, Server, answer};

/// What is answered to one request.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// What is sent.
    pub(crate) answer: Answer,
    /// How often somebody presses Ctrl-C while this is being asked.
    pub(crate) interrupts: usize,
}

#[derive(Default)]
struct Content {
    answers: BTreeMap<String, VecDeque<Told>>,
    asked: Vec<String>,
    unexpected: Vec<String>,
}

/// The server, on threads of its own.
pub(crate) struct CannedServer {
    server: Server,
    content: Arc<Mutex<Content>>,
    /// Kept for the server's sake.
    _runtime: Runtime,
}

impl CannedServer {
    /// Starts one.
    pub(crate) fn start(interrupts: &Interrupts) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("threads can be had");
        let content = Arc::<Mutex<Content>>::default();
        let unless_told = [
            // A Nomad of today, whose namespaces the token may not list.
            (
                "GET /v1/agent/self",
                200,
                r#"{"config":{"Version":{"Version":"2.0.5"}}}"#,
            ),
            ("GET /v1/namespaces", 403, "Permission denied"),
            // Which asks nobody who he is.
            (
                "GET /v1/acl/token/self",
                200,
                r#"{"AccessorID":"acls-disabled","Name":"ACLs Disabled Token","Type":"client"}"#,
            ),
        ];
        for (request, status, body) in unless_told {
            let told = Told {
                answer: answer(status, "application/json", &[], body.as_bytes()),
                interrupts: 0,
            };
            let mut content = content.lock().expect("unpoisoned");
            content.answers.insert(request.to_owned(), [told].into());
        }
        let (script, interrupts) = (Arc::clone(&content), interrupts.clone());
        let server = runtime.block_on(Server::start(move |seen, _| {
            let told = take_answer(&mut script.lock().expect("unpoisoned"), seen);
            (0..told.interrupts).for_each(|_| interrupts.press());
            told.answer
        }));
        Self {
            server,
            content,
            _runtime: runtime,
        }
    }

    /// Where it is.
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// From now on this is answered; what was told before for the same request is forgotten.
    pub(crate) fn tell(&self, request: &str, told: Told) {
        let mut content = self.content.lock().expect("unpoisoned");
        content.answers.insert(request.to_owned(), [told].into());
    }

    /// After what was told before for the same request, this is answered.
    pub(crate) fn then_tell(&self, request: &str, told: Told) {
        let mut content = self.content.lock().expect("unpoisoned");
        let answers = content.answers.entry(request.to_owned()).or_default();
        answers.push_back(told);
    }

    /// What it was asked since this was asked last: `GET /v1/…`, and the body below it.
    pub(crate) fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut self.content.lock().expect("unpoisoned").asked)
    }

    /// What it was asked and did not know.
    pub(crate) fn unexpected(&self) -> Vec<String> {
        self.content.lock().expect("unpoisoned").unexpected.clone()
    }
}

fn take_answer(content: &mut Content, seen: &Seen) -> Told {
    let request = seen.line();
    let body = seen.body.trim_end();
    let secrets = seen.header("x-nomad-csi-secrets").unwrap_or_default();
    let parts = [request.as_str(), secrets, body];
    let asked: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    content.asked.push(asked.join("\n"));
    let path = request.split('?').next().unwrap_or_default();
    let is_told = content.answers.contains_key(&request);
    let key = if is_told { &request } else { path };
    let next = content.answers.get_mut(key).and_then(|answers| {
        if answers.len() > 1 {
            answers.pop_front()
        } else {
            answers.front().cloned()
        }
    });
    next.unwrap_or_else(|| {
        content.unexpected.push(request);
        let body = b"no answer was told for this request";
        Told {
            answer: answer(501, "text/plain", &[], body),
            interrupts: 0,
        }
    })
}
