//! Committed generated files match their generators. `NOMAD_CSI_BLESS=1` updates them.

use std::path::{Path, PathBuf};

use nomad_csi::cli::{Shell, pages, reference, registration};
use nomad_csi_spec::{FUNCTIONS, Function};

/// Returns each generated file with its expected content.
fn generated() -> Vec<(PathBuf, String)> {
    let script = |shell, file: &str| {
        let text = registration(shell).expect("a supported shell");
        (Path::new("completions").join(file), text)
    };
    vec![
        script(Shell::Bash, "nomad-csi.bash"),
        script(Shell::Zsh, "_nomad-csi"),
        script(Shell::Fish, "nomad-csi.fish"),
        script(Shell::Powershell, "nomad-csi.ps1"),
        script(Shell::Elvish, "nomad-csi.elv"),
        (PathBuf::from("docs/cli.md"), reference()),
        (PathBuf::from("docs/functions.md"), functions()),
    ]
}

/// Returns the reference of the functions of specifications.
fn functions() -> String {
    let row = |function: &Function| {
        format!(
            "| `{}({})` | {} | {} | `{}` = `{}` |\n",
            function.name,
            function.parameters,
            function.result,
            function.summary,
            function.example,
            function.example_result
        )
    };
    let rows: String = FUNCTIONS.iter().map(row).collect();
    format!(
        "# Functions\n\nThe functions of [the specification language](language.md), as `nomad-csi explain function NAME` shows \
         them. All are pure: none reads a clock, a file or a random number. `list...` after the last argument passes the items \
         of a list as arguments. An argument of another type is an error.\n\n\
         | Function | Result | Meaning | Example |\n| --- | --- | --- | --- |\n{rows}"
    )
}

#[test]
fn committed_completions_and_reference_match_their_generators() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (file, expected) in generated() {
        let path = root.join(&file);
        if std::env::var_os("NOMAD_CSI_BLESS").is_some() {
            let folder = path.parent().expect("a parent directory");
            std::fs::create_dir_all(folder).expect("a writable directory");
            std::fs::write(&path, &expected).expect("a writable file");
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        let file = file.display();
        assert!(written == expected, "{file} is outdated: NOMAD_CSI_BLESS=1 updates it");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let pages = pages();
    for page in &pages {
        assert!(page.text.contains(".SH SYNOPSIS"), "{}", page.file);
    }
    let chapters = reference().matches("\n## `nomad-csi").count();
    assert_eq!(pages.len(), chapters, "the manual and the reference cover the same commands");
}
