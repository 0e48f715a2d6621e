// SPDX-License-Identifier: BSD-3-Clause
//! Builds HTML pages. A page needs no other file, follows the reader's choice of light or dark, and
//! is well-formed XML, too.

use crate::plot::{Colour, key};
use maud::{Markup, PreEscaped, html};

/// Text that marks a page as written by Millrace.
const MARK: &str = r#"<meta name="generator" content="Millrace"/>"#;

const STYLE: &str = include_str!("page.css");

/// True if `text` is the beginning of a page that Millrace has written.
pub fn is_ours(text: &str) -> bool {
    text.contains(MARK)
}

/// Returns the HTML page with this title, header, main part and footer.
pub fn page_of(title: &str, [header, main, footer]: [Markup; 3]) -> String {
    let page = html! {
        (PreEscaped("<!DOCTYPE html>\n"))
        html xmlns="http://www.w3.org/1999/xhtml" lang="en" {
            head {
                (PreEscaped(r#"<meta charset="utf-8"/>"#)) (PreEscaped(MARK))
                (PreEscaped(r#"<meta name="viewport" content="width=device-width"/>"#))
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { (header) }
                main { (main) }
                footer { (footer) }
            }
        }
    };
    page.into_string()
}

/// Returns an SVG picture with its caption.
pub fn figure(caption: &str, svg: &str) -> Markup {
    html! {
        figure role="img" aria-label=(caption) {
            figcaption { (caption) }
            (PreEscaped(svg))
        }
    }
}

/// Returns a legend: names with their colours.
pub fn legend(keys: impl IntoIterator<Item = (impl AsRef<str>, Colour)>) -> Markup {
    html! {
        ul.legend {
            @for (name, colour) in keys {
                li { (PreEscaped(key(colour))) (name.as_ref()) }
            }
        }
    }
}
