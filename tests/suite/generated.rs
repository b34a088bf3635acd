//! What is generated and committed is what the generators give. `NOMAD_CSI_BLESS=1` writes it anew.

use std::path::{Path, PathBuf};

use nomad_csi::cli::{Shell, pages, reference, registration};

/// (the file below the project, what belongs into it)
fn generated() -> Vec<(PathBuf, String)> {
    let script = |shell, file: &str| {
        let text = registration(shell).expect("the engine knows the shell");
        (Path::new("completions").join(file), text)
    };
    vec![
        script(Shell::Bash, "nomad-csi.bash"),
        script(Shell::Zsh, "_nomad-csi"),
        script(Shell::Fish, "nomad-csi.fish"),
        script(Shell::Powershell, "nomad-csi.ps1"),
        script(Shell::Elvish, "nomad-csi.elv"),
        (PathBuf::from("docs/cli.md"), reference()),
    ]
}

#[test]
fn completions_and_the_reference_are_what_the_generators_give() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (file, expected) in generated() {
        let path = root.join(&file);
        if std::env::var_os("NOMAD_CSI_BLESS").is_some() {
            let folder = path.parent().expect("it lies in a folder");
            std::fs::create_dir_all(folder).expect("the folder is writable");
            std::fs::write(&path, &expected).expect("the file is writable");
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        let file = file.display();
        assert!(
            written == expected,
            "{file} is old: NOMAD_CSI_BLESS=1 writes it anew"
        );
    }
}

#[test]
fn every_command_has_a_page_in_the_manual() {
    let pages = pages();
    for page in &pages {
        assert!(page.text.contains(".SH SYNOPSIS"), "{}", page.file);
    }
    let chapters = reference().matches("\n## `nomad-csi").count();
    assert_eq!(
        pages.len(),
        chapters,
        "the manual and the reference are of the same commands"
    );
}
