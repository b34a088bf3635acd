//! Which of flag, environment and context holds.

use super::*;

fn environment(pairs: &[(&str, &str)]) -> Environment {
    pairs.iter().copied().collect()
}

#[test]
fn forbidding_colours_beats_forcing_them() {
    let plain = Global::default();
    let forced = Global {
        force_color: true,
        ..Global::default()
    };
    let forbidden = Global {
        no_color: true,
        ..Global::default()
    };
    for (global, pairs, is_terminal, expected) in [
        (&plain, &[][..], true, true),
        (&plain, &[], false, false),
        (&plain, &[("TERM", "dumb")], true, false),
        (&plain, &[("NO_COLOR", "1")], true, false),
        (&plain, &[("NO_COLOR", "")], true, true),
        (
            &plain,
            &[("NOMAD_CLI_NO_COLOR", "1"), ("NOMAD_CLI_FORCE_COLOR", "1")],
            true,
            false,
        ),
        (&plain, &[("NOMAD_CLI_FORCE_COLOR", "1")], false, true),
        (&forced, &[], false, true),
        (&forced, &[("NO_COLOR", "1")], false, true),
        (&forced, &[("NOMAD_CLI_NO_COLOR", "1")], false, false),
        (&forbidden, &[("NOMAD_CLI_FORCE_COLOR", "1")], true, false),
    ] {
        assert_eq!(
            colour(global, &environment(pairs), is_terminal),
            expected,
            "{pairs:?}"
        );
    }
}

#[test]
fn a_flag_wins_over_its_variable_and_empty_counts_as_unset() {
    let pairs = [
        ("NOMAD_ADDR", "http://env:1"),
        ("NOMAD_TOKEN", "from-env"),
        ("NOMAD_NAMESPACE", "env"),
        ("NOMAD_REGION", ""),
        ("NOMAD_SKIP_VERIFY", "yes"),
    ];
    let flags = Global {
        address: Some("http://flag:2".into()),
        namespace: Some("flag".into()),
        ..Global::default()
    };
    let settings = cluster(&flags, &environment(&pairs), None).expect("all is text");
    assert_eq!(settings.address.expose(), "http://flag:2");
    assert_eq!(settings.namespace.as_deref(), Some("flag"));
    assert_eq!(
        settings.token.as_ref().map(Hidden::expose),
        Some("from-env")
    );
    assert_eq!(settings.region, None);
    assert!(!settings.tls.skip_verify, "`yes` is no boolean for Nomad");
    let settings = cluster(&Global::default(), &environment(&[]), None).expect("nothing is wrong");
    assert_eq!(settings.address.expose(), "http://127.0.0.1:4646");
}

/// Whoever skips verification for one cluster can be told otherwise for one command.
#[test]
fn a_flag_and_the_environment_can_take_skipping_back() {
    let config = "[context.lax]\naddress = \"https://lax:1\"\ntls_skip_verify = true\n";
    let home = tempfile::tempdir().expect("a directory can be made");
    let folder = home.path().join("nomad-csi");
    std::fs::create_dir(&folder).expect("it is new");
    std::fs::write(folder.join("config.toml"), config).expect("it is writable");
    std::fs::write(folder.join("context"), "lax").expect("it is writable");
    let home = home.path().to_str().expect("it is text");
    for (by_flag, flag, variable, expected) in [
        (false, None, "", true),
        (false, None, "false", false),
        (false, None, "yes", true),
        (true, None, "false", true),
        (true, Some(false), "", false),
        (false, Some(false), "true", false),
        (false, Some(true), "false", true),
    ] {
        let global = Global {
            context: by_flag.then(|| "lax".to_owned()),
            tls_skip_verify: flag,
            ..Global::default()
        };
        let environment =
            environment(&[("XDG_CONFIG_HOME", home), ("NOMAD_SKIP_VERIFY", variable)]);
        let chosen =
            crate::cli::contexts::chosen(&global, &environment).expect("the file is right");
        let settings = cluster(&global, &environment, chosen.as_ref()).expect("all is text");
        assert_eq!(
            settings.tls.skip_verify, expected,
            "{by_flag} {flag:?} {variable}"
        );
    }
}

/// It is used all the same: mounted secrets of containers are often like that.
#[cfg(unix)]
#[test]
fn a_token_file_that_others_can_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt as _;
    let config = "[context.lab]\naddress = \"https://lab:1\"\ntoken = { file = \"token\" }\n";
    let home = tempfile::tempdir().expect("a directory can be made");
    let folder = home.path().join("nomad-csi");
    std::fs::create_dir(&folder).expect("it is new");
    std::fs::write(folder.join("config.toml"), config).expect("it is writable");
    let token = folder.join("token");
    std::fs::write(&token, "canary").expect("it is writable");
    let home = home.path().to_str().expect("it is text");
    for (mode, expected) in [(0o600, None), (0o644, Some(Code::SecretExposed))] {
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(mode))
            .expect("it is ours");
        let environment = environment(&[("XDG_CONFIG_HOME", home)]);
        let chosen = crate::cli::contexts::chosen(&named("lab"), &environment);
        let chosen = chosen.expect("the file is right");
        let chosen = chosen.as_ref().expect("it is named");
        let settings = cluster(&named("lab"), &environment, Some(chosen)).expect("it is there");
        assert!(settings.token.is_some());
        let remark = chosen.remark().map(|(remark, _)| remark.code);
        assert_eq!(remark, expected, "{mode:o}");
    }
}

const CONFIG: &str = "[context.prod]\naddress = \"https://prod:1\"\nnamespace = \"context\"\nregion = \"context\"\ntoken = { env = \"PROD_TOKEN\" }\nca_cert = \"ca.pem\"\n[context.bare]\naddress = \"https://bare:1\"\n";

/// Address, namespace, token.
fn joined(
    flags: &Global,
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
    let settings = crate::cli::contexts::chosen(flags, &environment)
        .and_then(|chosen| cluster(flags, &environment, chosen.as_ref()))
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

fn named(name: &str) -> Global {
    Global {
        context: Some(name.into()),
        ..Global::default()
    }
}

/// Where the token of `prod` is.
const OWN: (&str, &str) = ("PROD_TOKEN", "canary-prod\n");
const MOVED: [(&str, &str); 2] = [OWN, ("NOMAD_ADDR", "http://other:1")];

type Row<'r> = (
    Global,
    &'r [(&'r str, &'r str)],
    Option<&'r str>,
    [&'r str; 3],
);

/// Flags, `--context` among them, beat the environment; the environment beats the chosen context;
/// and no token goes to another cluster than the one it stands beside.
#[test]
fn of_flag_environment_and_context_the_stronger_holds() {
    let flagged = Global {
        namespace: Some("flag".into()),
        token: Some(Secret("canary-flag".into())),
        ..named("prod")
    };
    let elsewhere = || Global {
        address: Some("http://other:1".into()),
        ..Global::default()
    };
    let own = [OWN];
    let all = [
        OWN,
        ("NOMAD_TOKEN", "canary-env"),
        ("NOMAD_NAMESPACE", "env"),
    ];
    let same = [OWN, ("NOMAD_ADDR", "https://prod:1/")];
    let of_context = ["https://prod:1", "context", "canary-prod"];
    let of_both = ["https://prod:1", "env", "canary-env"];
    let of_neither = ["http://other:1", "", ""];
    let rows: Vec<Row<'_>> = vec![
        (
            Global::default(),
            &own,
            None,
            ["http://127.0.0.1:4646", "", ""],
        ),
        (named("prod"), &own, None, of_context),
        (named("prod"), &all, None, of_context),
        (named("prod"), &same, None, of_context),
        (
            named("bare"),
            &all,
            Some("prod"),
            ["https://bare:1", "env", "canary-env"],
        ),
        (
            flagged,
            &[],
            None,
            ["https://prod:1", "flag", "canary-flag"],
        ),
        (Global::default(), &own, Some("prod"), of_context),
        (Global::default(), &all, Some("prod"), of_both),
        (Global::default(), &MOVED, Some("prod"), of_neither),
        (elsewhere(), &own, Some("prod"), of_neither),
        (elsewhere(), &own, Some("gone"), of_neither),
    ];
    for (flags, pairs, chosen, expected) in rows {
        let (address, namespace, token) = joined(&flags, pairs, chosen).unwrap_or_default();
        let found = [
            address,
            namespace.unwrap_or_default(),
            token.unwrap_or_default(),
        ];
        assert_eq!(found, expected, "{pairs:?} {chosen:?}");
    }
}

#[test]
fn two_clusters_at_once_and_contexts_that_are_not_there_are_errors() {
    for (flags, pairs, chosen, expected) in [
        (named("prod"), &MOVED[..], None, Code::CliContextConflict),
        (named("prod"), &[], None, Code::SecretUnset),
        (named("gone"), &[], None, Code::ConfigNoContext),
        (Global::default(), &[], Some("gone"), Code::ConfigNoContext),
    ] {
        assert_eq!(
            joined(&flags, pairs, chosen),
            Err(vec![expected]),
            "{pairs:?}"
        );
    }
}

#[test]
fn a_width_that_makes_no_sense_is_ignored() {
    for (set, terminal, expected) in [
        ("100", Some(80), 100),
        ("3", Some(80), 80),
        ("wide", None, 120),
    ] {
        assert_eq!(
            columns(&environment(&[("COLUMNS", set)]), terminal),
            expected,
            "{set}"
        );
    }
}
