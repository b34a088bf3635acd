//! The paths of Nomad's API that the agent does not have, with the answer that a client gets.
//!
//! A path of Nomad is answered with 501, and with 404 where a client of Nomad takes a 404 for "there is none" and goes on.
//! Every other path is unknown.

use http::StatusCode;

const NONE: StatusCode = StatusCode::NOT_FOUND;
const LATER: StatusCode = StatusCode::NOT_IMPLEMENTED;

/// A path of Nomad that the agent does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownPath {
    /// Its segments: `*` is any one, and `**` at the end is any number of them.
    pattern: &'static str,
    /// The status of the response.
    pub(super) status: StatusCode,
    /// What the agent does not have, and what does.
    pub(super) sentence: &'static str,
}

const fn row(pattern: &'static str, status: StatusCode, sentence: &'static str) -> KnownPath {
    KnownPath { pattern, status, sentence }
}

const NO_ACL: &str =
    "the ACL of this server has policies and tokens, and no roles, logins or one-time tokens";
const NO_TASK_ACCESS: &str = "this agent runs no other command in a task and does not pause one: use a command on the machine; \
                              `nomad-csi alloc restart` and `alloc signal` are there";
const NO_FILE_STREAM: &str = "this agent does not follow the files of allocations: `GET /v1/client/fs/cat/ID` sends one, and \
                              `nomad-csi alloc logs --follow` follows the output of a task";
const NO_USAGE: &str = "this agent does not measure what tasks and machines use";
const NO_DEPLOYMENTS: &str =
    "this agent has no deployments: it replaces the allocations of a changed job at once";
const NO_MARKED_VERSIONS: &str =
    "this agent does not mark versions of a job: `POST /v1/job/ID/revert` names one by its number";
const NO_SUBMISSION: &str =
    "this agent does not keep the text of a job file: `GET /v1/job/ID` returns the job";
const NO_SERVICES: &str = "this agent registers no services: use a Nomad cluster or Consul";
const NO_POOLS: &str = "this agent has the node pools `all` and `default`, which cannot be changed";
const ENTERPRISE: &str = "this agent has no features of Nomad Enterprise";
const NO_CLUSTER: &str = "this agent is the only server, and has no cluster to manage";
const NO_SNAPSHOTS: &str =
    "this agent makes no snapshot of its state: docs/agent.md says how to copy its data directory";
const NO_SCALING: &str =
    "this agent has no scaling policies: `POST /v1/job/ID/scale` sets the count of a group";
const NO_HOST_VOLUMES: &str =
    "this agent has no dynamic host volumes: `agent --host-volume NAME=PATH` offers a directory";
const NO_UI: &str = "this agent has no web interface: use `nomad-csi`, or Nomad's command line";
const NO_NODE_CHANGE: &str = "this agent does not have this request: use `nomad-csi node drain`, `node fence` or \
                              `node eligibility`";
const NO_LOG_STREAM: &str =
    "this agent does not stream its own log: read it where the agent was started";
const NO_IDENTITY: &str = "this agent gives tasks no identities";

const KNOWN: &[KnownPath] = &[
    row(".well-known/**", LATER, NO_IDENTITY),
    row("ui/**", LATER, NO_UI),
    row("v1/acl/**", LATER, NO_ACL),
    row("v1/agent/force-leave", LATER, NO_CLUSTER),
    row("v1/agent/host", LATER, "`GET /v1/node/ID` describes the machine of this agent"),
    row("v1/agent/join", LATER, NO_CLUSTER),
    row("v1/agent/keyring/**", LATER, NO_CLUSTER),
    row("v1/agent/monitor/**", LATER, NO_LOG_STREAM),
    row("v1/agent/pprof/**", LATER, NO_USAGE),
    row("v1/agent/schedulers/**", LATER, NO_CLUSTER),
    row("v1/agent/servers", LATER, NO_CLUSTER),
    row("v1/allocation/*/checks", NONE, NO_SERVICES),
    row("v1/allocation/*/services", NONE, NO_SERVICES),
    // Nomad's command line shows an allocation also without these two.
    row("v1/client/allocation/*/checks", NONE, NO_SERVICES),
    row("v1/client/allocation/*/stats", NONE, NO_USAGE),
    row("v1/client/allocation/**", LATER, NO_TASK_ACCESS),
    row("v1/client/fs/**", LATER, NO_FILE_STREAM),
    row("v1/client/gc", LATER, "this agent removes the directories of ended allocations by itself"),
    row("v1/client/metadata", LATER, "the nodes of this agent have no `meta`"),
    row("v1/client/stats", LATER, NO_USAGE),
    row("v1/deployment/**", NONE, NO_DEPLOYMENTS),
    row(
        "v1/evaluations/count",
        LATER,
        "this agent does not count evaluations: `GET /v1/evaluations` lists them",
    ),
    row("v1/job/**/actions", LATER, NO_TASK_ACCESS),
    row("v1/job/**/action", LATER, NO_TASK_ACCESS),
    row("v1/job/**/services", NONE, NO_SERVICES),
    row("v1/job/**/stable", LATER, NO_MARKED_VERSIONS),
    row("v1/job/**/submission", NONE, NO_SUBMISSION),
    row("v1/job/**/tag", LATER, NO_MARKED_VERSIONS),
    row(
        "v1/jobs/statuses",
        LATER,
        "this agent does not have this list: `GET /v1/jobs` has the status of each job",
    ),
    row("v1/node/*/evaluate", LATER, NO_NODE_CHANGE),
    row("v1/node/*/purge", LATER, NO_NODE_CHANGE),
    row("v1/node/pool/**", LATER, NO_POOLS),
    row("v1/node/pools", LATER, NO_POOLS),
    row("v1/operator/autopilot/**", LATER, NO_CLUSTER),
    row(
        "v1/operator/keyring/**",
        LATER,
        "`nomad-csi agent key rotate` replaces the key of a stopped agent",
    ),
    row("v1/operator/license", LATER, ENTERPRISE),
    row("v1/operator/raft/**", LATER, NO_CLUSTER),
    row("v1/operator/scheduler/**", LATER, "the scheduler of this agent has no settings"),
    row("v1/operator/snapshot", LATER, NO_SNAPSHOTS),
    row("v1/operator/upgrade-check/**", LATER, NO_CLUSTER),
    row("v1/operator/utilization", LATER, ENTERPRISE),
    row("v1/plugin/host/**", LATER, NO_HOST_VOLUMES),
    row("v1/quota/**", LATER, ENTERPRISE),
    row("v1/quota-usage/**", LATER, ENTERPRISE),
    row("v1/quota-usages", LATER, ENTERPRISE),
    row("v1/quotas", LATER, ENTERPRISE),
    row("v1/recommendation/**", LATER, ENTERPRISE),
    row("v1/recommendations/**", LATER, ENTERPRISE),
    row("v1/scaling/**", LATER, NO_SCALING),
    row(
        "v1/search/fuzzy",
        LATER,
        "this agent does not have this search: `POST /v1/search` finds what begins with a text",
    ),
    row("v1/sentinel/**", LATER, ENTERPRISE),
    row("v1/service/**", NONE, NO_SERVICES),
    row("v1/services", LATER, NO_SERVICES),
    row(
        "v1/system/reconcile/**",
        LATER,
        "this agent counts the allocations of a job when it is asked",
    ),
    row("v1/volume/host/**", LATER, NO_HOST_VOLUMES),
    row("v1/volumes/host/**", LATER, NO_HOST_VOLUMES),
];

/// Returns what is known about a path, which is decoded.
pub(super) fn known_path(path: &str) -> Option<&'static KnownPath> {
    let segments: Vec<_> = path.trim_matches('/').split('/').collect();
    if segments == [""] {
        return known_path("/ui");
    }
    KNOWN.iter().find(|known| matches(known.pattern, &segments))
}

fn matches(pattern: &str, segments: &[&str]) -> bool {
    let pattern: Vec<_> = pattern.split('/').collect();
    let is_same = |(expected, found): (&&str, &&str)| match *expected {
        "*" => !found.is_empty(),
        expected => expected == *found,
    };
    let Some(any) = pattern.iter().position(|segment| *segment == "**") else {
        return pattern.len() == segments.len() && pattern.iter().zip(segments).all(is_same);
    };
    let (before, after) = (&pattern[..any], &pattern[any + 1..]);
    segments.len() >= before.len() + after.len()
        && before.iter().zip(segments).all(is_same)
        && after.iter().rev().zip(segments.iter().rev()).all(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_found_by_a_path_of_its_own() {
        for known in KNOWN {
            for middle in ["x", "x/y"] {
                let path = known.pattern.replace("**", middle).replace('*', "x");
                let found = known_path(&format!("/{path}")).map(|found| found.sentence);
                assert_eq!(found, Some(known.sentence), "{path}");
            }
            assert!(!known.sentence.ends_with('.'), "{}", known.pattern);
        }
    }

    #[test]
    fn a_path_is_known_as_a_whole() {
        for (path, is_known) in [
            ("/", true),
            ("/ui", true),
            ("/ui/", true),
            ("/ui/jobs/web", true),
            ("/uix", false),
            ("/v1/acl", true),
            ("/v1/acl/token/self", true),
            ("/v1/aclx", false),
            ("/v1/client/stats", true),
            ("/v1/client/stats/x", false),
            ("/v1/client/allocation/a/stats", true),
            ("/v1/job/a/dispatch-1/submission", true),
            ("/v1/job/a/submissions", false),
            ("/v1/nope", false),
            ("/v1", false),
        ] {
            assert_eq!(known_path(path).is_some(), is_known, "{path}");
        }
        let stats = known_path("/v1/client/allocation/a/stats").unwrap();
        assert_eq!(stats.status, StatusCode::NOT_FOUND);
    }
}
