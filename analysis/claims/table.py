"""The table of claims: what is claimed, the rule in words, and the function that judges by it."""

from __future__ import annotations

from analysis.claims import accuracy, speed
from analysis.claims.accuracy import ALIKE, AT, COLLAPSE, EQUAL_LOSS
from analysis.claims.judging import MARGIN, Claim
from analysis.claims.speed import LITTLE, WORTHWHILE

CLAIMS = (
    Claim(
        number=1,
        title="One-token mode is as accurate as AR, even as AR trained for twice as long",
        claimed=accuracy.one_token_claimed,
        rule=f"""Each MARS model with the SFT loss is compared with the AR model it started from and with an AR model
            that saw twice as many conversations, once on each benchmark that both ran, on most of its problems. It
            holds if every interval lies above −{MARGIN:g} point and fails if one lies below 0. A gated adapter, whose
            texts are AR's by construction, holds where they are all the same; it needs no second AR model and makes no
            interval wider. In bfloat16 a model writes other texts on another CPU, so both runs are of one.""",
        find=accuracy.one_token,
    ),
    Claim(
        number=2,
        title="The SFT loss keeps larger blocks from losing accuracy",
        claimed=accuracy.sft_loss_claimed,
        rule=f"""It holds if accuracy surely falls from the smallest to the largest block without the SFT loss, and
            surely by more than with it. It fails if it surely falls by less than with it, or surely by less than
            {MARGIN:g} point.""",
        find=accuracy.sft_loss,
    ),
    Claim(
        number=3,
        title="Lowering τ trades little accuracy for speed, smoothly",
        claimed=accuracy.frontier_claimed,
        rule=f"""Each MARS model with the SFT loss is judged. It holds if every step down in τ adds tokens per forward
            and τ = {AT:g} surely loses at most as many points, and gains at least as many tokens per forward, as the
            paper's extremes. It fails if a step surely takes tokens away, or τ = {AT:g} surely loses more or gains
            less.""",
        find=accuracy.frontier,
    ),
    Claim(
        number=4,
        title="The block cache makes MARS faster than AR",
        claimed=speed.cache_claimed,
        rule=f"""Judged at the batch size of the paper's largest speed-up, in the same turns as AR on the same weights
            and on every other model of this size; of several groups of runs, that on most problems, with intervals
            that allow for each group that was run in turns. It holds if the best cache block size is surely more than
            {100 * (WORTHWHILE - 1):.0f} % faster than each AR run, and fails if every size surely gains less than that
            on each: so small a gain matters to no user.""",
        find=speed.cache,
    ),
    Claim(
        number=5,
        title="Probability, margin and entropy work equally well as scores",
        claimed=lambda _: "Probability, margin and entropy as acceptance score give similar frontiers.",
        rule=f"""Tokens per forward are read off each frontier at a loss of {EQUAL_LOSS:g} points against one-token
            mode, interpolated between thresholds, of the most problems that all scores have. It holds if margin and
            entropy surely differ by less than {ALIKE:g} % from probability, and fails if one surely differs by
            more. Where no threshold tried of a score surely loses so much, there is nothing to compare.""",
        find=accuracy.scores,
    ),
    Claim(
        number=6,
        title="Jacobi decoding gains little",
        claimed=speed.jacobi_claimed,
        rule=f"""It holds if the best number of draft tokens surely gives at most {LITTLE:g} tokens per forward, and
            fails if it surely gives more.""",
        find=speed.jacobi,
    ),
    Claim(
        number=7,
        title="MARS speeds up speculative decoding",
        claimed=speed.speculative_claimed,
        rule="""Each pair runs at its fastest setting in the same turns. It holds if a MARS target, and MARS as draft
            and target, both surely beat AR → AR, and fails if one is surely slower. Where there is no smaller model to
            draft, copies of the text so far (prompt lookup) take its place, and masks as drafts, and masks with copies,
            must both beat them in the same turns.""",
        find=speed.speculative,
    ),
    Claim(
        number=8,
        title="Block diffusion from the same start falls far behind AR",
        claimed=accuracy.collapse_claimed,
        rule=f"""It holds if block diffusion, at its most accurate setting, is surely more than {COLLAPSE:g} points
            behind the AR model, and fails if it is surely less.""",
        find=accuracy.collapse,
    ),
    Claim(
        number=9,
        title=f"Exact decoding keeps the text, in fewer passes than any τ that loses at most {MARGIN:g} point",
        claimed=lambda _: (
            "Mask proposals that the next pass verifies give the text of one-token mode, in fewer passes than any "
            f"τ that loses at most {MARGIN:g} point."
        ),
        rule=f"""It holds if every text equals that of one-token mode (but for bfloat16 on a GPU, where near-ties may
            flip) and the best layout surely takes fewer passes than the fastest τ that loses at most {MARGIN:g}
            point as measured. It fails if a text differs or it surely takes more passes.""",
        find=speed.exact,
        ours=True,
    ),
    Claim(
        number=10,
        title="Rows that do not wait at block ends beat the block cache",
        claimed=lambda _: (
            "A cursor per row, which the paper leaves to future work, is faster than the best block cache."
        ),
        rule="""Judged at batch sizes 4, 8 and 16, at the same τ and in the same turns. It holds if sliding_window
            surely beats block_cached at every cache block size, and fails if it is surely slower than the best.""",
        find=speed.waiting,
        ours=True,
    ),
    Claim(
        number=11,
        title="The B+1-th proposal adds tokens at the same τ",
        claimed=lambda _: (
            "Training covers B + 1 predictions for B masks; the published sampler drops the last. Keeping it adds "
            "tokens."
        ),
        rule="""It holds if it surely adds tokens per forward at every τ and surely loses accuracy nowhere. It fails if
            it surely loses accuracy at some τ, or surely adds nothing.""",
        find=accuracy.extra,
        ours=True,
    ),
    Claim(
        number=12,
        title="Our AR baseline is faster than `generate` of transformers",
        claimed=speed.baseline_claimed,
        rule="""It holds if our AR is surely faster than generate, on the same weights and in turns with it, at every
            batch size measured, and fails if it is surely slower at one. The intervals are over rounds of the
            benchmark.""",
        find=speed.baseline,
        ours=True,
    ),
)
