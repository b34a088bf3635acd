//! The precedence of flags, environment variables and clusters of the config file.

use super::*;

fn environment(pairs: &[(&str, &str)]) -> Environment {
    pairs.iter().copied().collect()
}

#[test]
fn disabling_colours_overrides_forcing_them() {
    let plain = GlobalArgs::default();
    let forced = GlobalArgs { force_color: true, ..GlobalArgs::default() };
    let forbidden = GlobalArgs { no_color: true, ..GlobalArgs::default() };
    for (global, pairs, is_terminal, expected) in [
        (&plain, &[][..], true, true),
        (&plain, &[], false, false),
        (&plain, &[("TERM", "dumb")], true, false),
        (&plain, &[("NO_COLOR", "1")], true, false),
        (&plain, &[("NO_COLOR", "")], true, true),
        (&plain, &[("NOMAD_CLI_NO_COLOR", "1"), ("NOMAD_CLI_FORCE_COLOR", "1")], true, false),
        (&plain, &[("NOMAD_CLI_FORCE_COLOR", "1")], false, true),
        (&forced, &[], false, true),
        (&forced, &[("NO_COLOR", "1")], false, true),
        (&forced, &[("NOMAD_CLI_NO_COLOR", "1")], false, false),
        (&forbidden, &[("NOMAD_CLI_FORCE_COLOR", "1")], true, false),
    ] {
        assert_eq!(uses_colour(global, &environment(pairs), is_terminal), expected, "{pairs:?}");
    }
}

#[test]
fn a_flag_overrides_its_variable_and_empty_counts_as_unset() {
    let pairs = [
        ("NOMAD_ADDR", "http://env:1"),
        ("NOMAD_TOKEN", "from-env"),
        ("NOMAD_NAMESPACE", "env"),
        ("NOMAD_REGION", ""),
        ("NOMAD_SKIP_VERIFY", "yes"),
    ];
    let flags = GlobalArgs {
        address: Some("http://flag:2".into()),
        namespace: Some("flag".into()),
        ..GlobalArgs::default()
    };
    let settings = cluster_settings(&flags, &environment(&pairs), None).expect("UTF-8 variables");
    assert_eq!(settings.address.expose(), "http://flag:2");
    assert_eq!(settings.namespace.as_deref(), Some("flag"));
    assert_eq!(settings.token.as_ref().map(RedactedString::expose), Some("from-env"));
    assert_eq!(settings.region, None);
    assert!(!settings.tls.skip_verify, "`yes` is not a boolean in Nomad");
    let settings =
        cluster_settings(&GlobalArgs::default(), &environment(&[]), None).expect("valid settings");
    assert_eq!(settings.address.expose(), "http://127.0.0.1:4646");
}

/// A command can restore the verification that the config file disables for a cluster.
#[test]
fn a_flag_and_the_environment_can_enable_verification() {
    let config = "[context.lax]\naddress = \"https://lax:1\"\ntls_skip_verify = true\n";
    let home = tempfile::tempdir().expect("a new directory");
    let folder = home.path().join("nomad-csi");
    std::fs::create_dir(&folder).expect("a new directory");
    std::fs::write(folder.join("config.toml"), config).expect("a writable file");
    std::fs::write(folder.join("context"), "lax").expect("a writable file");
    let home = home.path().to_str().expect("a UTF-8 path");
    for (by_flag, flag, variable, expected) in [
        (false, None, "", true),
        (false, None, "false", false),
        (false, None, "yes", true),
        (true, None, "false", true),
        (true, Some(false), "", false),
        (false, Some(false), "true", false),
        (false, Some(true), "false", true),
    ] {
        let global = GlobalArgs {
            context: by_flag.then(|| "lax".to_owned()),
            tls_skip_verify: flag,
            ..GlobalArgs::default()
        };
        let environment =
            environment(&[("XDG_CONFIG_HOME", home), ("NOMAD_SKIP_VERIFY", variable)]);
        let chosen =
            crate::cli::cluster_contexts::select_cluster(&global, &environment, Path::new(""))
                .expect("a valid config file");
        let settings =
            cluster_settings(&global, &environment, chosen.as_ref()).expect("UTF-8 variables");
        assert_eq!(settings.tls.skip_verify, expected, "{by_flag} {flag:?} {variable}");
    }
}

/// The token is used nevertheless: mounted container secrets often have such modes.
#[cfg(unix)]
#[test]
fn a_token_file_that_others_can_read_causes_a_warning() {
    use std::os::unix::fs::PermissionsExt as _;
    let config = "[context.lab]\naddress = \"https://lab:1\"\ntoken = { file = \"token\" }\n";
    let home = tempfile::tempdir().expect("a new directory");
    let folder = home.path().join("nomad-csi");
    std::fs::create_dir(&folder).expect("a new directory");
    std::fs::write(folder.join("config.toml"), config).expect("a writable file");
    let token = folder.join("token");
    std::fs::write(&token, "canary").expect("a writable file");
    let home = home.path().to_str().expect("a UTF-8 path");
    for (mode, expected) in [(0o600, None), (0o644, Some(Code::SecretExposed))] {
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(mode))
            .expect("an own file");
        let environment = environment(&[("XDG_CONFIG_HOME", home)]);
        let chosen = crate::cli::cluster_contexts::select_cluster(
            &named("lab"),
            &environment,
            Path::new(""),
        );
        let chosen = chosen.expect("a valid config file");
        let chosen = chosen.as_ref().expect("a selected cluster");
        let settings =
            cluster_settings(&named("lab"), &environment, Some(chosen)).expect("a token");
        assert!(settings.token.is_some());
        let warning = chosen.token_warning().map(|(warning, _)| warning.code);
        assert_eq!(warning, expected, "{mode:o}");
    }
}

const CONFIG: &str = "[context.prod]\naddress = \"https://prod:1\"\nnamespace = \"context\"\nregion = \"context\"\ntoken = { env = \"PROD_TOKEN\" }\nca_cert = \"ca.pem\"\n[context.bare]\naddress = \"https://bare:1\"\n";

/// Returns the address, the namespace and the token.
fn joined(
    flags: &GlobalArgs,
    pairs: &[(&str, &str)],
    chosen: Option<&str>,
) -> Result<(String, Option<String>, Option<String>), Vec<Code>> {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("nomad-csi");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), CONFIG).unwrap();
    if let Some(name) = chosen {
        std::fs::write(folder.join("context"), format!("{name}\n")).unwrap();
    }
    let mut pairs = pairs.to_vec();
    let config_home = home.path().to_string_lossy().into_owned();
    pairs.push(("XDG_CONFIG_HOME", &config_home));
    let environment = environment(&pairs);
    let settings = crate::cli::cluster_contexts::select_cluster(flags, &environment, Path::new(""))
        .and_then(|chosen| cluster_settings(flags, &environment, chosen.as_ref()))
        .map_err(|error| -> Vec<Code> { error.diagnostics.iter().map(|one| one.code).collect() })?;
    let shown = format!("{settings:?}");
    assert!(!shown.contains("canary"), "{shown}");
    if settings.address.expose() == "https://prod:1" {
        assert_eq!(settings.tls.ca_file, Some(folder.join("ca.pem")));
    }
    Ok((
        settings.address.expose().to_owned(),
        settings.namespace,
        settings.token.map(|token| token.expose().to_owned()),
    ))
}

fn named(name: &str) -> GlobalArgs {
    GlobalArgs { context: Some(name.into()), ..GlobalArgs::default() }
}

/// The variable with the token of `prod`.
const OWN: (&str, &str) = ("PROD_TOKEN", "canary-prod\n");
const MOVED: [(&str, &str); 2] = [OWN, ("NOMAD_ADDR", "http://other:1")];

type Row<'r> = (GlobalArgs, &'r [(&'r str, &'r str)], Option<&'r str>, [&'r str; 3]);

/// Flags, including `--context`, override the environment. The environment overrides the default
/// cluster. A token is never sent to another cluster than its own.
#[test]
fn flags_override_the_environment_and_it_overrides_the_default_cluster() {
    let flagged = GlobalArgs {
        namespace: Some("flag".into()),
        token: Some(Secret("canary-flag".into())),
        ..named("prod")
    };
    let elsewhere =
        || GlobalArgs { address: Some("http://other:1".into()), ..GlobalArgs::default() };
    let own = [OWN];
    let all = [OWN, ("NOMAD_TOKEN", "canary-env"), ("NOMAD_NAMESPACE", "env")];
    let same = [OWN, ("NOMAD_ADDR", "https://prod:1/")];
    let of_context = ["https://prod:1", "context", "canary-prod"];
    let of_both = ["https://prod:1", "env", "canary-env"];
    let of_neither = ["http://other:1", "", ""];
    let rows: Vec<Row<'_>> = vec![
        (GlobalArgs::default(), &own, None, ["http://127.0.0.1:4646", "", ""]),
        (named("prod"), &own, None, of_context),
        (named("prod"), &all, None, of_context),
        (named("prod"), &same, None, of_context),
        (named("bare"), &all, Some("prod"), ["https://bare:1", "env", "canary-env"]),
        (flagged, &[], None, ["https://prod:1", "flag", "canary-flag"]),
        (GlobalArgs::default(), &own, Some("prod"), of_context),
        (GlobalArgs::default(), &all, Some("prod"), of_both),
        (GlobalArgs::default(), &MOVED, Some("prod"), of_neither),
        (elsewhere(), &own, Some("prod"), of_neither),
        (elsewhere(), &own, Some("gone"), of_neither),
    ];
    for (flags, pairs, chosen, expected) in rows {
        let (address, namespace, token) = joined(&flags, pairs, chosen).unwrap_or_default();
        let found = [address, namespace.unwrap_or_default(), token.unwrap_or_default()];
        assert_eq!(found, expected, "{pairs:?} {chosen:?}");
    }
}

#[test]
fn conflicting_clusters_and_missing_contexts_are_errors() {
    for (flags, pairs, chosen, expected) in [
        (named("prod"), &MOVED[..], None, Code::CliContextConflict),
        (named("prod"), &[], None, Code::SecretUnset),
        (named("gone"), &[], None, Code::ConfigNoContext),
        (GlobalArgs::default(), &[], Some("gone"), Code::ConfigNoContext),
    ] {
        assert_eq!(joined(&flags, pairs, chosen), Err(vec![expected]), "{pairs:?}");
    }
}

#[test]
fn an_invalid_width_is_ignored() {
    for (set, terminal, expected) in
        [("100", Some(80), 100), ("3", Some(80), 80), ("wide", None, 120)]
    {
        assert_eq!(output_width(&environment(&[("COLUMNS", set)]), terminal), expected, "{set}");
    }
}
