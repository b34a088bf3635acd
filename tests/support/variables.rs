//! A fake of Nomad's Variables API in memory, with locks and faults: the parts that a ledger uses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::http_server::{ReceivedRequest, Reply, json as ok, response, text};

/// A fault of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The write takes effect, and the connection closes before the response.
    ReplyLost,
    /// The connection closes before the write takes effect.
    RequestLost,
}

#[derive(Default)]
struct Content {
    index: u64,
    variables: BTreeMap<String, Value>,
    /// Lock IDs by path.
    locks: BTreeMap<String, String>,
    /// The faults of the next writes.
    faults: Vec<Fault>,
    has_locks: bool,
    may_list: bool,
}

/// The variables of a server. A clone shares them.
#[derive(Clone)]
pub(crate) struct Variables(Arc<Mutex<Content>>);

impl Variables {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Content {
            has_locks: true,
            may_list: true,
            ..Content::default()
        })))
    }

    /// Imitates Nomad before 1.7, which ignores the lock parameters.
    pub(crate) fn without_locks(self) -> Self {
        self.0.lock().expect("unpoisoned").has_locks = false;
        self
    }

    /// Makes the token able to read but not to list.
    pub(crate) fn without_list(self) -> Self {
        self.0.lock().expect("unpoisoned").may_list = false;
        self
    }

    /// Makes the next writes fail.
    pub(crate) fn fail_next_writes(&self, faults: &[Fault]) {
        let mut faults = faults.to_vec();
        faults.reverse();
        self.0.lock().expect("unpoisoned").faults = faults;
    }

    /// Expires all locks.
    pub(crate) fn expire_locks(&self) {
        self.0.lock().expect("unpoisoned").locks.clear();
    }

    /// Returns the text of every variable, so a test can search it for secrets.
    pub(crate) fn texts(&self) -> Vec<String> {
        let content = self.0.lock().expect("unpoisoned");
        content.variables.values().map(Value::to_string).collect()
    }

    pub(crate) fn serve(&self, seen: &ReceivedRequest) -> Reply {
        let mut content = self.0.lock().expect("unpoisoned");
        let (path, query) = seen.target.split_once('?').unwrap_or((&seen.target, ""));
        let query: BTreeMap<&str, &str> =
            query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
        if path == "/v1/vars" {
            return content.list(&query);
        }
        let Some(path) = path.strip_prefix("/v1/var/") else {
            return text(404, "");
        };
        if seen.method == "GET" {
            return match content.variables.get(path) {
                Some(variable) => ok(&variable.to_string()),
                None => text(404, "variable not found"),
            };
        }
        match content.faults.pop() {
            Some(Fault::RequestLost) => Reply::Close,
            Some(Fault::ReplyLost) => {
                content.write(seen, path, &query);
                Reply::Close
            }
            None => content.write(seen, path, &query),
        }
    }
}

impl Content {
    fn list(&self, query: &BTreeMap<&str, &str>) -> Reply {
        let prefix = query.get("prefix").copied().unwrap_or_default();
        let prefix = prefix.replace("%2F", "/");
        let listed = self.variables.iter().filter(|(path, _)| path.starts_with(&prefix));
        let mut listed: Vec<Value> = listed.map(|(_, variable)| variable.clone()).collect();
        for variable in &mut listed {
            variable.as_object_mut().expect("a variable is an object").remove("Items");
        }
        if !self.may_list {
            listed.clear();
        }
        ok(&Value::from(listed).to_string())
    }

    fn write(&mut self, seen: &ReceivedRequest, path: &str, query: &BTreeMap<&str, &str>) -> Reply {
        let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
        let id = body.pointer("/Lock/ID").and_then(Value::as_str).unwrap_or_default();
        let conflict = || response(409, "text/plain", &[], br#"{"Path":""}"#);
        let holder = self.locks.get(path).cloned();
        if self.has_locks && query.contains_key("lock-renew") {
            return match holder {
                Some(holder) if holder == id => ok("{}"),
                _ => text(409, "attempting to modify locked variable"),
            };
        }
        if self.has_locks && query.contains_key("lock-release") {
            return match holder {
                Some(holder) if holder == id => {
                    self.locks.remove(path);
                    ok("{}")
                }
                Some(_) => conflict(),
                None => text(500, "variable doesn't hold a lock"),
            };
        }
        let is_acquire = query.contains_key("lock-acquire");
        if holder.is_some_and(|holder| !is_acquire || holder != id) {
            return conflict();
        }
        let now = self.variables.get(path).map_or(0, |v| v["ModifyIndex"].as_u64().unwrap());
        if let Some(cas) = query.get("cas")
            && cas.parse::<u64>().expect("cas is a number") != now
        {
            return conflict();
        }
        if seen.method == "DELETE" {
            self.variables.remove(path);
            return response(204, "text/plain", &[], b"");
        }
        self.index += 1;
        let index = self.index;
        let mut variable =
            json!({"Path": path, "ModifyIndex": index, "Items": body["Items"].clone()});
        self.variables.insert(path.to_owned(), variable.clone());
        if self.has_locks && is_acquire {
            let id = if id.is_empty() { format!("lock-{index}") } else { id.to_owned() };
            variable["Lock"] = json!({"ID": id, "TTL": "15s", "LockDelay": "1s"});
            self.locks.insert(path.to_owned(), id);
        }
        ok(&variable.to_string())
    }
}
