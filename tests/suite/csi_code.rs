//! The Rust code of `proto/csi/v1/csi.proto`, as it is committed beside it.
//!
//! It is committed because a protobuf compiler would be a third of a first build. This test compares
//! it with what the compiler makes of the definitions. Messages with a field that may hold secrets
//! get no derived `Debug`: `csi::proto` writes one that hides the secrets. `NOMAD_CSI_BLESS=1`
//! rewrites the code.

use std::path::Path;

/// Fields that may hold secrets. All fields with the option `csi_secret` are named `secrets`, and
/// mount flags may hold passwords (CSI, "VolumeCapability").
const SECRET_FIELDS: [&str; 2] = ["secrets", "mount_flags"];

fn csi_code(root: &Path) -> String {
    let includes = [root.join("proto")];
    let descriptors =
        protox::compile(["csi/v1/csi.proto"], includes).expect("the definitions compile");
    let mut with_secrets = vec![];
    for file in &descriptors.file {
        let package = file.package();
        let mut messages: Vec<_> = file
            .message_type
            .iter()
            .map(|message| (format!(".{package}.{}", message.name()), message))
            .collect();
        while let Some((name, message)) = messages.pop() {
            let has_secrets = message
                .field
                .iter()
                .any(|field| SECRET_FIELDS.contains(&field.name()));
            let nested = message.nested_type.iter();
            messages.extend(nested.map(|nested| (format!("{name}.{}", nested.name()), nested)));
            if has_secrets {
                with_secrets.push(name);
            }
        }
    }
    with_secrets.sort();
    let out = tempfile::tempdir().expect("a temporary directory can be created");
    tonic_prost_build::configure()
        .btree_map(".")
        .disable_comments(["."])
        .skip_debug(&with_secrets)
        .out_dir(out.path())
        .compile_fds(descriptors)
        .expect("the code can be generated");
    let code = std::fs::read_to_string(out.path().join("csi.v1.rs"))
        .expect("the generated code is readable");
    format!(
        "{code}/// Messages with a field that may hold secrets.\n#[cfg(test)]\n\
         const MESSAGES_WITH_SECRETS: &[&str] = &{with_secrets:?};\n"
    )
}

#[test]
fn every_field_with_the_secret_option_is_named_secrets() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto/csi/v1/csi.proto");
    let text = std::fs::read_to_string(path).expect("the definitions are readable");
    let secret = |line: &&str| line.contains("(csi_secret) = true");
    let lines: Vec<&str> = text.lines().filter(secret).collect();
    assert!(lines.len() > 10, "{lines:?}");
    for line in lines {
        assert!(line.contains("> secrets = "), "{line}");
    }
}

#[test]
fn the_committed_csi_code_is_what_the_definitions_compile_to() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("proto/csi/v1/csi.v1.rs");
    let expected = csi_code(root);
    if std::env::var_os("NOMAD_CSI_BLESS").is_some() {
        std::fs::write(&path, &expected).expect("the code is writable");
    }
    let committed = std::fs::read_to_string(&path).expect("the code is readable");
    assert!(
        committed == expected,
        "{} is out of date: run the tests with NOMAD_CSI_BLESS=1 to rewrite it",
        path.display()
    );
}
