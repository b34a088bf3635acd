//! The action and the component of `docs/pipelines/` install an archive by its checksum and run their commands in the order of a
//! pipeline. Their shell parts run as the hosts run them, with an embedded agent as the server.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::support::http_server::{Server, json};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

const SPECIFICATION: &str = r#"
variable "name" {}

volume "db" {
  type      = "csi"
  name      = var.name
  plugin_id = "hostpath"

  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
}
"#;

/// A `gh` that keeps the comments of a pull request in a file of JSON.
const GH: &str = r#"#!/bin/sh
set -e
printf '%s\n' "$*" >>"$HOME/gh.log"
case $* in
*--paginate*) [ ! -e "$HOME/comment" ] || echo 7 ;;
*"--method POST"*) [ ! -e "$HOME/comment" ] && cp comment.md "$HOME/comment" ;;
*"--method PATCH"*/comments/7*) cp comment.md "$HOME/comment" ;;
*) exit 1 ;;
esac
"#;

/// A checkout on a machine of a pipeline, and a release beside it.
struct Machine {
    directory: TempDir,
    sha256: String,
    /// The directories of `PATH` before those of the system.
    path: Vec<PathBuf>,
}

impl Machine {
    /// Returns nothing on a machine without the programs that a pipeline has, and says so.
    #[expect(clippy::print_stderr, reason = "a skipped test must be visible")]
    fn new(test: &str) -> Option<Self> {
        for tool in ["curl", "zstd", "bash"] {
            if Command::new(tool).arg("--version").output().is_err() {
                eprintln!("SKIPPED {test}: `{tool}` is not installed");
                return None;
            }
        }
        let directory = tempfile::tempdir().expect("a new directory");
        let machine = Self { directory, sha256: String::new(), path: vec![] };
        for folder in ["releases", "checkout/volumes", "checkout/envs", "temp", "home", "bin"] {
            std::fs::create_dir_all(machine.at(folder)).unwrap();
        }
        machine.write("checkout/volumes/db.hcl", SPECIFICATION);
        machine.write("checkout/envs/prod.vars.hcl", "name = \"prod-db\"\n");
        machine.program("bin/gh", GH);
        Some(machine.released())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        std::fs::write(self.at(path), text).unwrap();
    }

    fn program(&self, path: &str, text: &str) {
        self.write(path, text);
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.at(path), mode).unwrap();
    }

    /// Makes the archive of a release: the program, with a server for what needs one.
    fn released(mut self) -> Self {
        let name = format!("nomad-csi-{}-x86_64-unknown-linux-gnu", env!("CARGO_PKG_VERSION"));
        std::fs::create_dir(self.at(&name)).unwrap();
        let program = env!("CARGO_BIN_EXE_nomad-csi");
        let state = self.at("state").display().to_string();
        self.program(
            &format!("{name}/nomad-csi"),
            &format!(
                "#!/bin/sh\ncase $1 in validate) exec '{program}' \"$@\" ;; *) exec '{program}' \"$@\" '--embedded={state}' ;; esac\n"
            ),
        );
        let archive = self.at(&format!("releases/{name}.tar.zst"));
        let tar = Command::new("tar")
            .args(["--zstd", "-cf"])
            .arg(&archive)
            .arg("-C")
            .arg(self.directory.path())
            .arg(&name)
            .output()
            .expect("tar is installed");
        let problem = String::from_utf8_lossy(&tar.stderr);
        assert!(tar.status.success(), "the test needs tar and zstd: {problem}");
        let digest = Sha256::digest(std::fs::read(archive).unwrap());
        self.sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self
    }

    fn releases(&self) -> String {
        format!("file://{}", self.at("releases").display())
    }

    /// Runs a script as the hosts do, and returns its exit code and what it wrote.
    fn run(&self, script: &str, environment: &BTreeMap<String, String>) -> (i32, String) {
        let mut path: Vec<_> = self.path.clone();
        path.extend(["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin"].map(PathBuf::from));
        let output = Command::new("bash")
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script])
            .current_dir(self.at("checkout"))
            .env_clear()
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("HOME", self.at("home"))
            .envs(environment)
            .output()
            .expect("bash is installed");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path)).expect("the file is readable")
}

fn yaml(text: &str) -> Value {
    serde_yaml::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Runs the steps of the action with these names, in this order. Returns the exit code of each, with what it wrote.
fn run_action(
    machine: &mut Machine,
    command: &str,
    sha256: &str,
    names: &[&str],
) -> Vec<(i32, String)> {
    let action = yaml(&read("docs/pipelines/github/action.yml"));
    let given = BTreeMap::from([
        ("command", command.to_owned()),
        ("releases", machine.releases()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("sha256", sha256.to_owned()),
        ("environment", "prod".to_owned()),
        ("options", "--var-file envs/prod.vars.hcl".to_owned()),
        ("set-options", "--set web-prod".to_owned()),
        ("plan-options", "--deny literal-secrets".to_owned()),
    ]);
    let value = |text: &str| {
        let inner = text.strip_prefix("${{ ").and_then(|text| text.strip_suffix(" }}"));
        match inner.and_then(|inner| inner.strip_prefix("inputs.")) {
            Some(name) => given.get(name).cloned().unwrap_or_else(|| {
                action["inputs"][name]["default"].as_str().expect("a default").to_owned()
            }),
            None => inner.map_or(text, |_| "12").to_owned(),
        }
    };
    let steps = action["runs"]["steps"].as_array().expect("steps");
    let mut results = vec![];
    for name in names {
        let step = steps.iter().find(|step| step["name"] == *name).expect("the step");
        let mut environment: BTreeMap<String, String> = BTreeMap::from([
            ("RUNNER_TEMP".into(), machine.at("temp").display().to_string()),
            ("GITHUB_PATH".into(), machine.at("temp/path").display().to_string()),
            ("GITHUB_OUTPUT".into(), machine.at("temp/output").display().to_string()),
            ("GITHUB_STEP_SUMMARY".into(), machine.at("temp/summary").display().to_string()),
            ("GITHUB_REPOSITORY".into(), "team/volumes".into()),
        ]);
        for (name, text) in step["env"].as_object().expect("an environment") {
            environment.insert(name.clone(), value(text.as_str().unwrap()));
        }
        results.push(machine.run(step["run"].as_str().expect("a script"), &environment));
        if let Ok(added) = std::fs::read_to_string(machine.at("temp/path")) {
            machine.path = vec![machine.at("bin"), PathBuf::from(added.lines().last().unwrap())];
        }
    }
    results
}

fn succeeded(results: &[(i32, String)]) {
    for (code, text) in results {
        assert_eq!(*code, 0, "{text}");
    }
}

#[test]
fn the_action_installs_plans_with_one_comment_and_applies_the_plan() {
    let Some(mut machine) =
        Machine::new("the_action_installs_plans_with_one_comment_and_applies_the_plan")
    else {
        return;
    };
    let sha256 = machine.sha256.clone();
    let steps = ["Install nomad-csi", "Validate", "Plan", "Comment"];
    succeeded(&run_action(&mut machine, "plan", &sha256, &steps));
    let read = |path: &str| std::fs::read_to_string(machine.at(path)).unwrap();
    assert_eq!(read("temp/output"), "changes=true\n");
    assert!(read("home/comment").starts_with("<!-- nomad-csi prod -->\n### prod\n"));
    assert!(read("temp/summary").contains("`db`"), "{}", read("temp/summary"));
    assert!(read("checkout/validate.sarif").contains("\"version\": \"2.1.0\""));

    // The second plan of a pull request replaces the comment of the first.
    succeeded(&run_action(&mut machine, "plan", &sha256, &["Plan", "Comment"]));
    let log = std::fs::read_to_string(machine.at("home/gh.log")).unwrap();
    let methods: Vec<_> = log.lines().filter(|line| line.contains("--method")).collect();
    assert!(methods[0].contains("POST repos/team/volumes/issues/12/comments "), "{log}");
    assert!(methods[1].contains("PATCH repos/team/volumes/issues/comments/7 "), "{log}");

    succeeded(&run_action(
        &mut machine,
        "apply",
        &sha256,
        &["Install nomad-csi", "Apply", "Drift"],
    ));
    assert!(machine.at("checkout/apply.xml").is_file());
    std::fs::remove_file(machine.at("temp/output")).unwrap();
    succeeded(&run_action(&mut machine, "plan", &sha256, &["Plan"]));
    let output = std::fs::read_to_string(machine.at("temp/output")).unwrap();
    assert_eq!(output, "changes=false\n", "everything is applied");
}

#[test]
fn the_action_installs_nothing_with_another_checksum() {
    let Some(mut machine) = Machine::new("the_action_installs_nothing_with_another_checksum")
    else {
        return;
    };
    let other = "0".repeat(64);
    let results = run_action(&mut machine, "plan", &other, &["Install nomad-csi"]);
    assert_ne!(results[0].0, 0, "{}", results[0].1);
    assert!(!machine.at("temp/nomad-csi").exists());
    assert!(!machine.at("temp/path").exists());
}

/// Returns the component with its inputs in place.
fn component(machine: &Machine, sha256: &str) -> Value {
    let text = read("docs/pipelines/gitlab/template.yml");
    let (spec, jobs) = text.split_once("\n---\n").expect("two documents");
    let given = BTreeMap::from([
        ("environment", "prod".to_owned()),
        ("releases", machine.releases()),
        ("sha256", sha256.to_owned()),
        ("options", "--var-file envs/prod.vars.hcl".to_owned()),
        ("set-options", "--set web-prod".to_owned()),
    ]);
    let mut jobs = jobs.to_owned();
    for (name, input) in yaml(spec)["spec"]["inputs"].as_object().expect("inputs") {
        let value = given.get(name.as_str()).cloned();
        let value = value.or_else(|| input["default"].as_str().map(str::to_owned));
        let value = value.unwrap_or_else(|| panic!("no value of {name}"));
        jobs = jobs.replace(&format!("$[[ inputs.{name} ]]"), &value);
    }
    assert!(!jobs.contains("$[["), "every input is declared");
    yaml(&jobs)
}

/// Runs a job: what comes before its script, and the script, in one shell.
fn run_job(machine: &Machine, jobs: &Value, name: &str, more: &[(&str, String)]) -> (i32, String) {
    let job = &jobs[name];
    let base = &jobs[job["extends"].as_str().expect("a base")];
    let lines = [&base["before_script"], &job["script"]].into_iter();
    let lines = lines.flat_map(|lines| lines.as_array().expect("lines of a script"));
    let script: Vec<_> = lines.map(|line| line.as_str().expect("a line")).collect();
    let variables = base["variables"].as_object().expect("variables").iter();
    let mut environment: BTreeMap<String, String> = variables
        .map(|(name, value)| (name.clone(), value.as_str().expect("a text").to_owned()))
        .collect();
    environment.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    machine.run(&script.join("\n"), &environment)
}

#[test]
fn the_component_installs_plans_with_a_comment_and_applies_the_plan() {
    let Some(machine) =
        Machine::new("the_component_installs_plans_with_a_comment_and_applies_the_plan")
    else {
        return;
    };
    let jobs = component(&machine, &machine.sha256);
    let (code, text) = run_job(&machine, &jobs, "validate-prod", &[]);
    assert_eq!(code, 0, "{text}");

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let server = runtime.block_on(Server::always(json("{}")));
    let merge_request = [
        ("CI_MERGE_REQUEST_IID", "12".to_owned()),
        ("CI_PROJECT_ID", "3".to_owned()),
        ("CI_API_V4_URL", server.url()),
        ("NOMAD_CSI_COMMENT_TOKEN", "the-token".to_owned()),
    ];
    let (code, text) = run_job(&machine, &jobs, "plan-prod", &merge_request);
    assert_eq!(code, 2, "changes are pending: {text}");
    assert_eq!(jobs["plan-prod"]["allow_failure"]["exit_codes"], 2);
    let request = server.only_request();
    assert_eq!(request.line(), "POST /projects/3/merge_requests/12/notes");
    assert_eq!(request.header("private-token"), Some("the-token"));
    assert!(request.body.starts_with("body=%23%23%23+prod%0A"), "{}", request.body);

    let (code, text) = run_job(&machine, &jobs, "apply-prod", &[]);
    assert_eq!(code, 0, "{text}");
    assert!(machine.at("checkout/apply.xml").is_file());
    let (code, text) = run_job(&machine, &jobs, "plan-prod", &[]);
    assert_eq!(code, 0, "everything is applied: {text}");
    assert_eq!(server.requests().len(), 1, "without a merge request there is no comment");
}

#[test]
fn the_component_installs_nothing_with_another_checksum() {
    let Some(machine) = Machine::new("the_component_installs_nothing_with_another_checksum") else {
        return;
    };
    let jobs = component(&machine, &"0".repeat(64));
    let (code, text) = run_job(&machine, &jobs, "validate-prod", &[]);
    assert_ne!(code, 0, "{text}");
    assert!(!machine.at("checkout/.nomad-csi").exists());
}

#[test]
fn the_workflow_gives_the_action_only_inputs_that_it_has() {
    let action = yaml(&read("docs/pipelines/github/action.yml"));
    let workflow = yaml(&read("docs/pipelines/github/workflow.yml"));
    let mut uses = 0;
    for job in workflow["jobs"].as_object().unwrap().values() {
        for step in job["steps"].as_array().unwrap() {
            if step["uses"] != "./.github/actions/nomad-csi" {
                continue;
            }
            uses += 1;
            let given = step["with"].as_object().unwrap();
            let known = action["inputs"].as_object().unwrap();
            assert!(given.keys().all(|name| known.contains_key(name)), "{given:?}");
            let required = known.iter().filter(|(_, input)| input["required"] == true);
            for (name, _) in required {
                assert!(given.contains_key(name), "{name}");
            }
        }
    }
    assert_eq!(uses, 2, "plan and apply");
    // Only an environment with protection rules applies.
    assert_eq!(workflow["jobs"]["apply"]["environment"], "${{ matrix.environment }}");
}
