"""Gradio's theme variables, set to the palette of shared/palette.css, so that light and dark follow one source."""

import gradio as gr


def build() -> gr.themes.Base:
    """The theme of the page. Its fonts ship with Gradio; only their regular and bold files are complete."""
    fonts = gr.themes.utils.fonts
    base = gr.themes.Base(
        font=(fonts.LocalFont("IBM Plex Sans", weights=(400, 700)), "ui-sans-serif", "system-ui", "sans-serif"),
        font_mono=(fonts.LocalFont("IBM Plex Mono", weights=(400, 700)), "ui-monospace", "Consolas", "monospace"),
        text_size=gr.themes.sizes.text_md,
        radius_size=gr.themes.sizes.radius_md,
        spacing_size=gr.themes.sizes.spacing_md,
    )
    return base.set(**_SIZES, **{name + mode: value for name, value in _COLORS.items() for mode in ("", "_dark")})


_SIZES = {
    "layout_gap": "14px",
    "block_padding": "0px",
    "block_title_text_size": "calc(15px * var(--lens-type))",
    "input_text_size": "calc(18px * var(--lens-type))",
    "input_padding": "9px 12px",
    "input_radius": "8px",
    "button_large_text_size": "calc(19px * var(--lens-type))",
    "button_large_padding": "10px 20px",
    "button_large_radius": "8px",
    "button_small_text_size": "calc(15px * var(--lens-type))",
    "button_small_padding": "5px 12px",
    "button_small_radius": "8px",
    "checkbox_label_text_size": "calc(16px * var(--lens-type))",
}
_COLORS = {
    "block_shadow": "none",
    "input_shadow": "none",
    "input_shadow_focus": "0 0 0 3px color-mix(in srgb, var(--lens-accent) 22%, transparent)",
    "button_border_width": "1px",
    "body_background_fill": "var(--lens-paper)",
    "body_text_color": "var(--lens-ink)",
    "body_text_color_subdued": "var(--lens-muted)",
    "background_fill_primary": "var(--lens-card)",
    "background_fill_secondary": "var(--lens-paper)",
    "border_color_primary": "var(--lens-line)",
    "block_background_fill": "transparent",
    "block_border_width": "0px",
    "block_title_text_color": "var(--lens-muted)",
    "input_background_fill": "var(--lens-field)",
    "input_border_color": "var(--lens-line)",
    "input_border_color_focus": "var(--lens-accent)",
    "input_border_width": "1px",
    "input_placeholder_color": "var(--lens-muted)",
    "slider_color": "var(--lens-accent)",
    "button_primary_background_fill": "var(--lens-accent)",
    "button_primary_background_fill_hover": "var(--lens-accent-deep)",
    "button_primary_text_color": "var(--lens-on-accent)",
    "button_primary_border_color": "var(--lens-accent)",
    "button_primary_border_color_hover": "var(--lens-accent-deep)",
    "button_secondary_border_color_hover": "var(--lens-muted)",
    "button_secondary_background_fill": "var(--lens-card)",
    "button_secondary_background_fill_hover": "var(--lens-mars-odd)",
    "button_secondary_text_color": "var(--lens-ink)",
    "button_secondary_border_color": "var(--lens-line)",
    "checkbox_label_background_fill": "var(--lens-card)",
    "checkbox_label_background_fill_selected": "var(--lens-ink)",
    "checkbox_label_text_color": "var(--lens-ink)",
    "checkbox_label_text_color_selected": "var(--lens-paper)",
}
