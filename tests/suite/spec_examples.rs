//! The examples in `specs/` are valid and give no warning.

use std::path::Path;

use nomad_csi_client::files;
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};
use nomad_csi_spec::{self as spec, Defaults, Purpose, Syntax, VolumeSpec};

fn specifications(arguments: &[&str]) -> (Vec<VolumeSpec>, Vec<String>) {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let mut request = files::SpecFilesRequest {
        arguments: &arguments,
        base_directory: Path::new(env!("CARGO_MANIFEST_DIR")),
        stdin: &mut std::io::empty(),
        syntax: None,
        pipe_limit: files::PIPE_LIMIT,
        read_before: &files::StreamTexts::default(),
        shows_only_tree: false,
    };
    let texts = files::read_spec_files(&mut request, &mut sources, &mut diagnostics);
    let mut specs = vec![];
    for (source, syntax) in texts {
        let defaults = Defaults::default();
        specs.extend(spec::parse(&mut sources, source, syntax, &defaults, &mut diagnostics));
    }
    spec::validate(&specs, Purpose::ByExternalId, &mut diagnostics);
    let problems = diagnostics.iter().map(|one| format!("{}: {}", one.code, one.message));
    (specs, problems.collect())
}

#[test]
fn all_examples_are_valid_together() {
    let (specs, problems) = specifications(&["specs/drivers", "specs/*.*"]);
    let placeholders = "spec/literal-secret: 2 secrets of volume `rbd-database` are literal values: userID, userKey";
    assert_eq!(problems, [placeholders]);
    let ids: Vec<&str> = specs.iter().map(|spec| spec.request.id.as_str()).collect();
    let expected = [
        "ebs-database",
        "rbd-database",
        "nfs-shared",
        "hetzner-database",
        "database",
        "uploads",
        "cache",
        "metrics",
        "reference-data",
    ];
    assert_eq!(ids, expected);
}

#[test]
fn the_examples_of_init_work_with_the_embedded_plugin() {
    for syntax in Syntax::ALL {
        let file = format!("specs/hostpath.{syntax}");
        let (specs, problems) = specifications(&[&file]);
        assert_eq!(problems, Vec::<String>::new(), "{file}");
        assert_eq!(specs.len(), 1, "{file}");
        assert_eq!(specs[0].request.plugin_id.as_str(), "hostpath", "{file}");
        assert!(Purpose::ByExternalId.creates(&specs[0]), "{file}");
    }
}

#[test]
fn secrets_in_examples_are_placeholders() {
    let (specs, _) = specifications(&["specs/*.*", "specs/drivers"]);
    let secrets = specs.iter().filter_map(|spec| spec.request.secrets.as_ref());
    for (key, from) in secrets.flat_map(nomad_csi_model::SecretRefs::iter) {
        let is_placeholder = from.literal().is_none_or(|value| value.starts_with("PLACEHOLDER"));
        assert!(key == "userID" || is_placeholder, "{key}");
    }
}
