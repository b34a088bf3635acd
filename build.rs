//! Compiles the protobuf definitions with a compiler in Rust, so that nobody needs `protoc`.
//!
//! Messages that carry secrets get no derived `Debug`: which ones these are is read from the
//! definitions, and `csi::proto` writes a `Debug` that hides the secrets. The list goes into
//! `csi.v1.hiding.rs`, where a test compares it with what `csi::proto` covers.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "agent")]
    compile_csi()?;
    Ok(())
}

/// Fields that may hold secrets: all fields with the option `csi_secret` are called `secrets`, and
/// mount flags may hold passwords (CSI, "VolumeCapability").
#[cfg(feature = "agent")]
const SECRET_FIELDS: [&str; 2] = ["secrets", "mount_flags"];

#[cfg(feature = "agent")]
fn compile_csi() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto/csi");
    let descriptors = protox::compile(["csi/v1/csi.proto"], ["proto"])?;
    let mut hiding = vec![];
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
            messages.extend(
                message
                    .nested_type
                    .iter()
                    .map(|nested| (format!("{name}.{}", nested.name()), nested)),
            );
            if has_secrets {
                hiding.push(name);
            }
        }
    }
    hiding.sort();
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("csi.v1.hiding.rs"), format!("&{hiding:?}"))?;
    tonic_prost_build::configure()
        .btree_map(".")
        .disable_comments(["."])
        .skip_debug(&hiding)
        .compile_fds(descriptors)?;
    Ok(())
}
