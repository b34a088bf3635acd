//! The Rust code of `proto/csi/v1/csi.proto`, as it is committed beside it.
//!
//! It is committed because a protobuf compiler would be a third of a first build. This test compares
//! it with what the compiler makes of the definitions. Messages with a field that may hold secrets
//! get no derived `Debug`: `csi::proto` writes one that hides the secrets. Every message shows its texts to a
//! visitor, each with what it may hold, so a field that [`TEXT_FIELDS`] does not list cannot be compiled.
//! `NOMAD_CSI_BLESS=1` rewrites the code.

use std::fmt::Write as _;
use std::path::Path;

use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FileDescriptorSet};

/// Fields that may hold secrets. All fields with the option `csi_secret` are named `secrets`, and
/// mount flags may hold passwords (CSI, "VolumeCapability").
const SECRET_FIELDS: [&str; 2] = ["secrets", "mount_flags"];

/// What the texts of messages are, by the name of the field (`csi::message_texts`).
const TEXT_FIELDS: [(&str, &[&str]); 5] = [
    (
        "Shown",
        &["fs_type", "manifest", "message", "reason", "vendor_version", "volume_mount_group"],
    ),
    (
        "Address",
        &[
            "base_snapshot_id",
            "group_snapshot_id",
            "name",
            "next_token",
            "node_id",
            "published_node_ids",
            "segments",
            "snapshot_id",
            "snapshot_ids",
            "source_volume_id",
            "source_volume_ids",
            "staging_target_path",
            "starting_token",
            "target_path",
            "target_snapshot_id",
            "volume_id",
            "volume_path",
            "volume_publish_path",
        ],
    ),
    ("Context", &["mutable_parameters", "parameters", "volume_context"]),
    ("Sealed", &["mount_flags", "publish_context"]),
    ("Secret", &["secrets"]),
];

/// Returns the implementations of `MessageTexts`, in which each message shows its texts.
fn message_texts(descriptors: &FileDescriptorSet) -> String {
    let mut code = String::new();
    let files = descriptors.file.iter();
    for file in files.filter(|file| file.package() == "csi.v1") {
        for message in &file.message_type {
            write_texts(&mut code, message, "");
        }
    }
    code
}

fn write_texts(code: &mut String, message: &DescriptorProto, module: &str) {
    let own = message.name().replace("RPC", "Rpc");
    let name = format!("{module}{own}");
    let inner = format!("{module}{}::", snake_case(&own));
    let mut lines = vec![];
    let mut alternatives: Vec<Vec<String>> = vec![vec![]; message.oneof_decl.len()];
    for field in &message.field {
        let ident = field_ident(field.name());
        let is_message = field.r#type() == Type::Message;
        let is_foreign = field.type_name().starts_with(".google.protobuf");
        let of_map = message.nested_type.iter().find(|nested| {
            let is_map =
                nested.options.as_ref().is_some_and(prost_types::MessageOptions::map_entry);
            is_map && field.type_name().ends_with(&format!(".{}", nested.name()))
        });
        let is_text = field.r#type() == Type::String
            || of_map.is_some_and(|entry| entry.field.iter().any(|f| f.r#type() == Type::String));
        assert!(field.r#type() != Type::Bytes, "bytes may hold a secret too");
        let oneof = field.oneof_index.filter(|_| !field.proto3_optional());
        match oneof.map(|index| &mut alternatives[usize::try_from(index).expect("an index")]) {
            Some(arms) if is_message => arms.push(camel_case(field.name())),
            Some(_) => panic!("{name}.{} is no message", field.name()),
            None if is_text => {
                let kinds = TEXT_FIELDS.iter();
                let kind = kinds.clone().find(|(_, names)| names.contains(&field.name()));
                let (kind, _) = kind.unwrap_or_else(|| {
                    panic!("decide what {name}.{} may hold: TEXT_FIELDS", field.name())
                });
                lines.push(format!("self.{ident}.visit_texts(TextKind::{kind}, visit);"));
            }
            None if is_message && !is_foreign => {
                lines.push(format!("self.{ident}.visit(visit);"));
            }
            None => {}
        }
    }
    for (oneof, arms) in message.oneof_decl.iter().zip(&alternatives) {
        if arms.is_empty() {
            continue;
        }
        let choice = format!("{inner}{}", camel_case(oneof.name()));
        let arms: String =
            arms.iter().map(|arm| format!("Self::{arm}(inner) => inner.visit(visit),")).collect();
        writeln!(
            code,
            "impl MessageTexts for {choice} {{ fn visit(&mut self, visit: &mut TextVisitor<'_>) {{ \
             match self {{ {arms} }} }} }}"
        )
        .expect("a text takes everything");
        lines.push(format!("self.{}.visit(visit);", field_ident(oneof.name())));
    }
    let parameter = if lines.is_empty() { "_" } else { "visit" };
    writeln!(
        code,
        "impl MessageTexts for {name} {{ fn visit(&mut self, {parameter}: &mut TextVisitor<'_>) {{ {} }} }}",
        lines.join(" ")
    )
    .expect("a text takes everything");
    for nested in &message.nested_type {
        let is_map = nested.options.as_ref().is_some_and(prost_types::MessageOptions::map_entry);
        if !is_map {
            write_texts(code, nested, &inner);
        }
    }
}

fn field_ident(name: &str) -> String {
    match name {
        "type" => "r#type".to_owned(),
        name => name.to_owned(),
    }
}

fn camel_case(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    });
    words.collect()
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_uppercase() && at > 0 {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

fn csi_code(root: &Path) -> String {
    let includes = [root.join("proto")];
    let descriptors =
        protox::compile(["csi/v1/csi.proto"], includes).expect("the definitions compile");
    let texts = message_texts(&descriptors);
    let mut with_secrets = vec![];
    for file in &descriptors.file {
        let package = file.package();
        let mut messages: Vec<_> = file
            .message_type
            .iter()
            .map(|message| (format!(".{package}.{}", message.name()), message))
            .collect();
        while let Some((name, message)) = messages.pop() {
            let has_secrets =
                message.field.iter().any(|field| SECRET_FIELDS.contains(&field.name()));
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
         const MESSAGES_WITH_SECRETS: &[&str] = &{with_secrets:?};\n\n{texts}"
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
