//! Links of the pages: each leads to a file of the repository, and each anchor to a heading.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use verdigris_tests::harness::path;

#[derive(Default)]
struct Page {
    links: Vec<String>,
    anchors: HashSet<String>,
}

impl Page {
    fn read(text: &str) -> Self {
        let mut page = Page::default();
        let mut heading: Option<String> = None;
        let mut repeated: HashMap<String, usize> = HashMap::new();
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = anchor(&heading.take().unwrap_or_default());
                    let number = repeated.entry(anchor.clone()).or_default();
                    page.anchors.insert(if *number == 0 { anchor } else { format!("{anchor}-{number}") });
                    *number += 1;
                }
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        page
    }
}

/// The anchor of a heading on GitHub.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The pages in a folder, and in those inside it down to a depth.
fn pages(folder: &str, depth: usize, found: &mut Vec<String>) {
    for entry in fs::read_dir(path(folder)).unwrap().map(Result::unwrap) {
        let name = format!("{folder}/{}", entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() && depth > 0 {
            pages(&name, depth - 1, found);
        } else if name.ends_with(".md") {
            found.push(name);
        }
    }
}

/// A path without `..`, or `None` outside the repository.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => normal.pop().then_some(())?,
            Component::Normal(name) => normal.push(name),
            _ => {}
        }
    }
    Some(normal)
}

#[test]
fn every_link_leads_to_a_file_and_every_anchor_to_a_heading() {
    let mut names = vec!["README.md".to_owned(), "CHANGELOG.md".to_owned(), "tests/README.md".to_owned()];
    for (folder, depth) in [("docs", 3), ("crates", 1), ("fixtures", 2)] {
        pages(folder, depth, &mut names);
    }
    let read = |name: String| {
        let page = Page::read(&fs::read_to_string(path(&name)).unwrap());
        (PathBuf::from(name), page)
    };
    let pages: BTreeMap<PathBuf, Page> = names.into_iter().map(read).collect();
    let (mut links, mut broken) = (0, Vec::new());
    for (name, page) in &pages {
        for link in page.links.iter().filter(|link| !link.contains(':')) {
            links += 1;
            let (file, fragment) = link.split_once('#').map_or((&**link, None), |(file, anchor)| (file, Some(anchor)));
            let target = match file {
                "" => Some(name.clone()),
                file => normal(&name.parent().unwrap().join(file)),
            };
            let exists = target.is_some_and(|target| match (pages.get(&target), fragment) {
                (Some(page), Some(anchor)) => page.anchors.contains(anchor),
                _ => path(target.to_str().unwrap()).exists(),
            });
            if !exists {
                broken.push(format!("{}: {link}", name.display()));
            }
        }
    }
    assert!(pages.len() > 60 && links > 300, "{} pages with {links} links", pages.len());
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn anchors_are_those_of_github() {
    let page = Page::read("# `a --b`: C_d, É!\n\n## Two words\n\n## Two words\n\n```sh\n# not a heading\n```\n");
    let expected = ["a---b-c_d-é", "two-words", "two-words-1"].map(str::to_owned);
    assert_eq!(page.anchors, HashSet::from(expected));
}
