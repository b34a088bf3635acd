//! `version`: what this program was built from.

use crate::cli::command_context::CommandContext;
use crate::cli::exit::Exit;

/// The commit, which a release sets. Without it, the program was built by hand.
const COMMIT: Option<&str> = option_env!("NOMAD_CSI_COMMIT");

/// The features that change what the program can do, and whether it was built with them.
const FEATURES: [(&str, bool); 4] = [
    ("agent", cfg!(feature = "agent")),
    ("jemalloc", cfg!(feature = "jemalloc")),
    ("tls-aws-lc", cfg!(feature = "tls-aws-lc")),
    ("tls-ring", cfg!(feature = "tls-ring")),
];

/// Prints the version, the commit and the features.
pub(crate) fn print_version(context: &CommandContext) -> Exit {
    let features = FEATURES.iter().filter(|(_, is_built)| *is_built).map(|(name, _)| *name);
    let text = describe(env!("CARGO_PKG_VERSION"), COMMIT, &features.collect::<Vec<_>>());
    context.printer.print_result(&text);
    Exit::Done
}

fn describe(version: &str, commit: Option<&str>, features: &[&str]) -> String {
    let features = features.join(", ");
    let commit = commit.filter(|commit| !commit.is_empty()).map(|commit| ("commit", commit));
    let lines =
        [("nomad-csi", version)].into_iter().chain(commit).chain([("features", &*features)]);
    lines.map(|(name, value)| format!("{name} {value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_a_commit_and_another_build_leaves_it_out() {
        let features = ["agent", "tls-ring"];
        assert_eq!(
            describe("1.2.3", Some("0123abcd"), &features),
            "nomad-csi 1.2.3\ncommit 0123abcd\nfeatures agent, tls-ring\n"
        );
        let without = "nomad-csi 1.2.3\nfeatures agent, tls-ring\n";
        assert_eq!(describe("1.2.3", None, &features), without);
        assert_eq!(describe("1.2.3", Some(""), &features), without);
    }

    #[test]
    fn every_feature_of_the_manifest_that_changes_the_program_is_named() {
        let manifest = include_str!("../../../Cargo.toml");
        let (_, section) = manifest.split_once("\n[features]\n").unwrap();
        let (section, _) = section.split_once("\n[").unwrap();
        let features =
            section.lines().filter_map(|line| line.split_once(" = [")).map(|(name, _)| name);
        let mut features: Vec<_> = features.filter(|name| *name != "default").collect();
        features.sort_unstable();
        assert_eq!(FEATURES.map(|(name, _)| name).to_vec(), features);
    }
}
