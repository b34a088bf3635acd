//! A run that fails writes every report that `--format` names, and each report says what failed.

use std::path::Path;
use std::sync::Arc;

use nomad_csi::cli::{Exit, Interrupts};
use serde_json::Value;

use crate::support::canned::{CannedResponse, CannedServer};
use crate::support::hermetic::{Redirect, run_in};
use crate::support::http_server::response;

const FILES: [&str; 5] = ["r.github", "r.sarif", "r.xml", "r.md", "r.json"];
const FORMATS: &str = "github=r.github,sarif=r.sarif,junit=r.xml,markdown=r.md,gitlab=r.json";

/// A specification of volume `db` with an access mode.
fn specification(access_mode: &str) -> String {
    format!(
        r#"volume "db" {{
  type      = "csi"
  name      = "db"
  plugin_id = "ebs0"

  capability {{
    access_mode     = "{access_mode}"
    attachment_mode = "file-system"
  }}
}}
"#
    )
}

/// A volume `db` that an allocation writes to.
const IN_USE: &str = r#"{"ID":"db","Name":"db","Namespace":"default","ExternalID":"vol-1","PluginID":"ebs0","AccessMode":"single-node-writer","AttachmentMode":"file-system",
 "RequestedCapabilities":[{"AccessMode":"single-node-writer","AttachmentMode":"file-system"}],"ModifyIndex":21,
 "WriteAllocs":{"8a2f3c41-77aa-4f3e-b1d2-0123456789ab":null}}"#;
const PLUGIN: &str = r#"{"ID":"ebs0","Provider":"ebs.csi.example","ControllerRequired":true,"ControllersExpected":1,"ControllersHealthy":1,"NodesExpected":1,"NodesHealthy":1,"Controllers":{},"Nodes":{}}"#;

/// Why a run fails.
#[derive(Clone, Copy, Debug)]
enum Failure {
    Specification,
    ServerUnreachable,
    WeakToken,
    VolumeInUse,
}

impl Failure {
    fn access_mode(self) -> &'static str {
        match self {
            Self::Specification => "single-node-righter",
            Self::VolumeInUse => "multi-node-reader-only",
            Self::ServerUnreachable | Self::WeakToken => "single-node-writer",
        }
    }

    /// The server's responses to reads of the volume and of its plugin; `None` if no server responds.
    fn responses(self) -> Option<(u16, &'static str)> {
        match self {
            Self::Specification | Self::ServerUnreachable => None,
            Self::WeakToken => Some((403, "Permission denied")),
            Self::VolumeInUse => Some((200, IN_USE)),
        }
    }
}

/// Runs a command that fails, and returns its exit code and its reports.
fn reports(directory: &Path, command: &str, failure: Failure) -> (Exit, [String; 5]) {
    let file = directory.join("db.hcl");
    std::fs::write(file, specification(failure.access_mode())).unwrap();
    let server = CannedServer::start(&Interrupts::default());
    let respond = |request: &str, status, body: &str| {
        let reply = response(status, "application/json", &[], body.as_bytes());
        let interrupts = 0;
        server.set_response(request, CannedResponse { reply, interrupts });
    };
    if let Some((status, volume)) = failure.responses() {
        respond("GET /v1/regions", 200, r#"["global"]"#);
        respond("GET /v1/volume/csi/db", status, volume);
        respond("GET /v1/plugin/csi/ebs0", 200, PLUGIN);
    }
    let url = match failure.responses() {
        Some(_) => server.url(),
        None => "http://127.0.0.1:1".to_owned(),
    };
    let line = format!("{command} -f db.hcl --format {FORMATS}");
    let run = run_in(directory, &line, |environment| {
        environment.servers = Arc::new(Redirect::to(&url));
    });
    let texts = FILES.map(|file| {
        std::fs::read_to_string(directory.join(file))
            .unwrap_or_else(|error| panic!("{line}: {file}: {error}\n{}", run.text))
    });
    (run.exit, texts)
}

/// The author of a change can put a link at the place of a report.
#[cfg(unix)]
#[test]
fn a_report_goes_through_no_link_out_of_the_tree() {
    let directory = tempfile::tempdir().unwrap();
    let (tree, home) = (directory.path().join("tree"), directory.path().join("home"));
    for path in [&tree, &home] {
        std::fs::create_dir(path).unwrap();
    }
    std::fs::write(home.join("bashrc"), "old").unwrap();
    std::fs::write(tree.join("db.hcl"), specification("single-node-writer")).unwrap();
    std::os::unix::fs::symlink("../home/bashrc", tree.join("report.md")).unwrap();
    std::os::unix::fs::symlink("../home", tree.join("reports")).unwrap();
    for file in ["report.md", "reports/new.md"] {
        let line = format!("validate -f db.hcl --format markdown={file}");
        let run = run_in(&tree, &line, |_| {});
        assert_eq!(run.exit, Exit::Error, "{}", run.text);
        let expected = format!("cannot write `{file}`: a link on its path leads to");
        assert!(run.text.contains(&expected), "{}", run.text);
    }
    let kept = std::fs::read_to_string(home.join("bashrc")).unwrap();
    assert_eq!(kept, "old");
    assert_eq!(std::fs::read_dir(&home).unwrap().count(), 1);
}

/// Checks that the elements of an XML document are closed in order, and that its text is escaped.
fn check_xml(text: &str) {
    let mut open: Vec<&str> = vec![];
    let (_, body) = text.split_once("?>").expect("an XML declaration");
    for piece in body.split('<').skip(1) {
        let (tag, content) = piece.split_once('>').expect("a tag has an end");
        for text in [tag, content] {
            let entities = text.split('&').skip(1);
            let known = ["amp;", "lt;", "gt;", "quot;", "apos;", "#"];
            for entity in entities {
                assert!(known.iter().any(|known| entity.starts_with(known)), "{text}");
            }
        }
        let name = tag.split([' ', '/']).find(|part| !part.is_empty());
        match (tag.starts_with('/'), tag.ends_with('/')) {
            (true, _) => assert_eq!(open.pop(), name, "{text}"),
            (false, false) => open.extend(name),
            (false, true) => {}
        }
    }
    assert!(open.is_empty(), "{open:?} are not closed:\n{text}");
}

/// Checks the form of each report.
fn check_forms([github, sarif, junit, markdown, gitlab]: &[String; 5]) {
    for line in github.lines() {
        assert!(line.starts_with("::"), "{github}");
    }
    let sarif: Value = serde_json::from_str(sarif).unwrap();
    let results = sarif["runs"][0]["results"].as_array();
    assert!(results.is_some_and(|results| !results.is_empty()), "{sarif}");
    check_xml(junit);
    assert!(junit.contains("<error ") || junit.contains("<failure "), "{junit}");
    let has_list = markdown.lines().any(|line| line.starts_with("- "));
    assert!(has_list || markdown.contains("| "), "{markdown}");
    let gitlab: Value = serde_json::from_str(gitlab).unwrap();
    let problems = gitlab.as_array();
    assert!(problems.is_some_and(|problems| !problems.is_empty()), "{gitlab}");
}

#[test]
fn every_report_of_a_failed_run_says_what_failed() {
    let apply = "apply --yes --server-wait 0s";
    for (failure, expected, commands) in [
        (
            Failure::Specification,
            "unknown access mode `single-node-righter`",
            &["validate", "plan", apply, "drift"][..],
        ),
        (Failure::ServerUnreachable, "refused the connection", &["plan", apply, "drift"]),
        (Failure::WeakToken, "token", &["plan", apply, "drift"]),
        (Failure::VolumeInUse, "in use", &["plan", apply]),
    ] {
        for command in commands {
            let directory = tempfile::tempdir().unwrap();
            let (exit, reports) = reports(directory.path(), command, failure);
            assert!(
                !matches!(exit, Exit::Done | Exit::ChangesPending),
                "{command}, {failure:?}: {exit:?}"
            );
            check_forms(&reports);
            for (file, text) in FILES.iter().zip(&reports) {
                assert!(
                    text.contains(expected),
                    "{command}, {failure:?}: {file} does not contain `{expected}`:\n{text}"
                );
            }
        }
    }
}
