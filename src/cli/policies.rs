//! The policies that a command obeys: those of `--policy`, of NOMAD_CSI_POLICY and of the context.
//!
//! All of them count, so none takes away what another one forbids. A command reads them before it reads or plans anything
//! else, and stops if it cannot. `validate` needs no server and no config file, so it obeys those that are named to it.

use std::path::{Path, PathBuf};

use super::args::GlobalArgs;
use super::env::{Environment, Variable};
use super::error::CliError;
use nomad_csi_client::files;
use nomad_csi_client::files::ClusterContext;
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};
use nomad_csi_plan::{Policies, Policy};

/// Reads the policies of a command. Relative paths start from `directory`, and the path of a context is a full one.
///
/// # Errors
/// Returns every problem of every file.
pub(super) fn read_policies(
    global: &GlobalArgs,
    environment: &Environment,
    directory: &Path,
    cluster: Option<&ClusterContext>,
) -> Result<Policies, CliError> {
    let mut paths: Vec<PathBuf> = vec![];
    let of_environment = environment.path(Variable::Policy);
    let of_context = cluster.and_then(|cluster| cluster.policy.clone());
    for path in global.policy.iter().cloned().chain(of_environment).chain(of_context) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    let (mut sources, mut problems) = (SourceMap::default(), Diagnostics::default());
    let mut policies: Vec<Policy> = vec![];
    for path in paths {
        let name = path.display().to_string();
        match files::read_policy(&directory.join(&path), &name, &mut sources) {
            Ok(policy) => policies.push(policy),
            Err(found) => problems.extend(found),
        }
    }
    if problems.has_errors() {
        return Err(CliError::from(problems).with_sources(sources));
    }
    Ok(policies.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_plan::{DenyRule, Risk};

    fn policy(file: &str, deny: &[DenyRule], max_risk: Option<Risk>) -> Policy {
        Policy { file: file.to_owned(), deny: deny.iter().copied().collect(), max_risk }
    }

    #[test]
    fn the_policies_of_the_options_the_environment_and_the_context_all_count() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(directory.path().join(name), text).unwrap();
        };
        write("ci.toml", "deny = [\"delete-data\"]\n");
        write("team.toml", "max_risk = \"reversible\"\n");
        write("context.toml", "deny = [\"replace\"]\n");
        let global = GlobalArgs {
            policy: vec!["ci.toml".into(), "ci.toml".into()],
            ..GlobalArgs::default()
        };
        let config = directory.path().join("config.toml");
        let text = "[context.a]\naddress = \"http://127.0.0.1:1\"\npolicy = \"context.toml\"\n";
        write("config.toml", text);
        let mut problems = Diagnostics::default();
        let contexts = files::read_config(&config, &mut SourceMap::default(), &mut problems);
        let contexts = contexts.unwrap();
        let environment = Environment::from_iter([("NOMAD_CSI_POLICY", "team.toml")]);
        let read = |environment, cluster| {
            read_policies(&global, environment, directory.path(), cluster).unwrap()
        };
        let ci = policy("ci.toml", &[DenyRule::DeleteData], None);
        let team = policy("team.toml", &[], Some(Risk::Reversible));
        let name = directory.path().join("context.toml").display().to_string();
        let of_context = policy(&name, &[DenyRule::Replace], None);
        let all = read(&environment, contexts.get("a"));
        assert_eq!(all, [ci.clone(), team, of_context].into_iter().collect());
        assert_eq!(read(&Environment::default(), None), [ci].into_iter().collect());
    }

    #[test]
    fn every_problem_of_every_policy_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("one.toml"), "denny = []\n").unwrap();
        let global = GlobalArgs {
            policy: vec!["one.toml".into(), "two.toml".into()],
            ..GlobalArgs::default()
        };
        let refused =
            read_policies(&global, &Environment::default(), directory.path(), None).unwrap_err();
        let codes: Vec<_> = refused.diagnostics.iter().map(|one| one.code.as_str()).collect();
        assert_eq!(codes, ["policy/invalid", "policy/unreadable"]);
        assert_eq!(refused.exit.code(), 1);
    }
}
