//! Adds a cluster to the text of a config file. What a person wrote there stays as it is: the new table is at the end.

use std::path::{Path, PathBuf};

/// The settings of a new context. Paths are absolute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewContext {
    /// `http://`, `https://` or `unix://`.
    pub address: String,
    /// The region of requests.
    pub region: Option<String>,
    /// The namespace of requests that set none.
    pub namespace: Option<String>,
    /// The variable that has the token.
    pub token_env: Option<String>,
    /// The file that has the token.
    pub token_file: Option<PathBuf>,
    /// PEM file with the authorities to trust.
    pub ca_cert: Option<PathBuf>,
    /// Directory of PEM files with the authorities to trust.
    pub ca_path: Option<PathBuf>,
    /// PEM file with the client certificate.
    pub client_cert: Option<PathBuf>,
    /// PEM file with its key.
    pub client_key: Option<PathBuf>,
    /// Name in the server's certificate.
    pub tls_server_name: Option<String>,
    /// True to accept any certificate.
    pub tls_skip_verify: Option<bool>,
    /// The policy that commands with this context obey.
    pub policy: Option<PathBuf>,
}

/// Returns the text of a config file with one more context at its end.
pub fn with_context(text: &str, name: &str, context: &NewContext) -> String {
    let mut lines = vec![format!("[context.{}]", key(name))];
    let mut add = |key: &str, value: Option<String>| {
        lines.extend(value.map(|value| format!("{key} = {value}")));
    };
    let path = |path: &Option<PathBuf>| path.as_deref().map(path_text);
    let text_of = |text: &Option<String>| text.as_deref().map(quoted);
    let token = match (&context.token_env, &context.token_file) {
        (Some(name), _) => Some(format!("{{ env = {} }}", quoted(name))),
        (None, Some(file)) => Some(format!("{{ file = {} }}", path_text(file))),
        (None, None) => None,
    };
    add("address", Some(quoted(&context.address)));
    add("region", text_of(&context.region));
    add("namespace", text_of(&context.namespace));
    add("token", token);
    add("ca_cert", path(&context.ca_cert));
    add("ca_path", path(&context.ca_path));
    add("client_cert", path(&context.client_cert));
    add("client_key", path(&context.client_key));
    add("tls_server_name", text_of(&context.tls_server_name));
    add("tls_skip_verify", context.tls_skip_verify.map(|value| value.to_string()));
    add("policy", path(&context.policy));
    let before = match text.trim_end() {
        "" => String::new(),
        _ if text.ends_with('\n') => format!("{text}\n"),
        _ => format!("{text}\n\n"),
    };
    format!("{before}{}\n", lines.join("\n"))
}

fn path_text(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match !name.is_empty() && name.chars().all(is_bare) {
        true => name.to_owned(),
        false => quoted(name),
    }
}

/// Returns a basic string of TOML.
fn quoted(text: &str) -> String {
    let mut written = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => written.extend(['\\', c]),
            c if c.is_control() => written.extend([format!("\\u{:04x}", u32::from(c))]),
            c => written.push(c),
        }
    }
    written + "\""
}

#[cfg(test)]
mod tests {
    use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};
    use proptest::prelude::*;

    use super::super::config::parse_config;
    use super::*;

    #[test]
    fn what_a_person_wrote_stays_and_the_context_is_at_the_end() {
        let context = NewContext {
            address: "https://n:4646".to_owned(),
            token_env: Some("TOKEN".to_owned()),
            ca_cert: Some("/etc/ca.pem".into()),
            tls_skip_verify: Some(false),
            ..NewContext::default()
        };
        let text = with_context("# mine\n[context.lab]\naddress=\"http://l\"", "prod", &context);
        assert_eq!(
            text,
            "# mine\n[context.lab]\naddress=\"http://l\"\n\n[context.prod]\naddress = \"https://n:4646\"\n\
             token = { env = \"TOKEN\" }\nca_cert = \"/etc/ca.pem\"\ntls_skip_verify = false\n"
        );
    }

    proptest! {
        #[test]
        fn every_text_is_read_as_it_was_given(
            name in "\\PC{1,8}|[\"\\\\\n\t\u{7f}.]{1,3}", namespace in "\\PC{1,8}|[\"\\\\\n\r\u{1b}]{1,3}",
        ) {
            let context = NewContext {
                address: "http://n".to_owned(),
                namespace: Some(namespace.clone()),
                ..NewContext::default()
            };
            let text = with_context("", &name, &context);
            let (mut sources, mut problems) = (SourceMap::default(), Diagnostics::default());
            let read = parse_config(&text, Path::new("config.toml"), &mut sources, &mut problems);
            prop_assert!(!problems.has_errors(), "{text}");
            prop_assert_eq!(read[&name].namespace.as_ref(), Some(&namespace));
        }
    }
}
