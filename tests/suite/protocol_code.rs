//! The Rust code of the protocols between servers and nodes, as it is committed beside each definition.
//!
//! No message gets a derived `Debug`, because many hold secrets. `NOMAD_CSI_BLESS=1` rewrites the code. The protocol of
//! plugins has a test of its own (`csi_code`).

use std::path::Path;

/// The definitions, each with its package, which is the name of the generated file beside it.
const PROTOCOLS: &[(&str, &str)] = &[
    ("nomadcsi/host/v1/host.proto", "nomadcsi.host.v1"),
    ("nomadcsi/plane/v1/plane.proto", "nomadcsi.plane.v1"),
    ("etcd/v3/etcd.proto", "etcdserverpb"),
];

fn generated_code(root: &Path, definitions: &str, package: &str) -> String {
    let includes = [root.join("proto")];
    let descriptors = protox::compile([definitions], includes).expect("the definitions compile");
    let out = tempfile::tempdir().expect("a temporary directory can be created");
    tonic_prost_build::configure()
        .btree_map(".")
        .disable_comments(["."])
        .skip_debug(["."])
        .out_dir(out.path())
        .compile_fds(descriptors)
        .expect("the code can be generated");
    std::fs::read_to_string(out.path().join(format!("{package}.rs")))
        .expect("the generated code is readable")
}

#[test]
fn the_committed_code_of_each_protocol_is_what_its_definitions_compile_to() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (definitions, package) in PROTOCOLS {
        let path = root.join("proto").join(definitions).with_file_name(format!("{package}.rs"));
        let expected = generated_code(root, definitions, package);
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
}
