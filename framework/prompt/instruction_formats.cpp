#include "prompt/instruction_formats.h"

#include <utility>

#include "core/text.h"

namespace dml {
namespace {

const std::string kWithInput =
    "Below is an instruction that describes a task, paired with an input that provides further context. "
    "Write a response that appropriately completes the request.";
const std::string kWithoutInput =
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.";
const std::string kConciseWithInput =
    "Below is an instruction from a USER that describes a task, paired with an input that provides further context. "
    "The ASSISTANT writes a response that concisely and appropriately completes the request.\n\n";
const std::string kConciseWithoutInput =
    "Below is an instruction from a USER that describes a task. "
    "The ASSISTANT writes a response that appropriately and concisely completes the request.\n\n";
const std::string kContext = "Use the following contextual information to concisely answer the question.\n";
const std::string kNoAnswer =
    "The context provided does not contain any information about your inquiry. "
    "Therefore, I'm unable to answer your question based on the given context.";

// The layouts of a style: the frame of the system text, and the turn without and with input.
struct Style {
  std::string system, without_input, with_input;
};

const Style kInstruct{"{system}\n\n", "### Instruction:\n{instruction}\n\n### Response:\n",
                      "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n"};
const Style kChat{"SYSTEM: {system}\n", "USER: {instruction}\nASSISTANT:", "USER: {instruction}\n{input}\nASSISTANT:"};
const Style kChatmlStyle{"<|im_start|>system\n{system}<|im_end|>\n",
                         "<|im_start|>user\n{instruction}<|im_end|>\n<|im_start|>assistant\n",
                         "<|im_start|>user\n{instruction}\n{input}<|im_end|>\n<|im_start|>assistant\n"};
const Style kPhi{"<|system|>\n{system}<|end|>\n", "<|user|>\n{instruction}<|end|>\n<|assistant|>\n",
                 "<|user|>\n{instruction}<|end|>{input}<|assistant|>"};

// A format in a style with fixed system texts ("": none).
InstructionFormat fixed(std::string name, std::string help, const Style& style, const std::string& system_without,
                        const std::string& system_with, const std::string& instruction = "{instruction}",
                        const std::string& input = "{input}", const std::string& answer = "{output}") {
  auto lay = [&](const std::string& system, const std::string& turn) {
    std::string head = system.empty() ? "" : with_replaced(style.system, "{system}", system);
    return head + with_replaced(with_replaced(turn, "{instruction}", instruction), "{input}", input);
  };
  InstructionFormat format;
  format.name = std::move(name);
  format.help = std::move(help);
  format.without_input = lay(system_without, style.without_input);
  if (!input.empty()) format.with_input = lay(system_with, style.with_input);
  format.answer = answer;
  format.input = input.empty() ? "" : input.substr(1, input.find_first_of("[}") - 1);
  return format;
}

// A format whose system text is a column.
InstructionFormat with_system(std::string name, std::string help, const Style& style, std::string column,
                              const std::string& instruction, const std::string& input, const std::string& answer) {
  InstructionFormat format = fixed(std::move(name), std::move(help), style, "", "", instruction, input, answer);
  format.system_column = std::move(column);
  format.system_layout = style.system;
  return format;
}

InstructionFormat bare(std::string name, std::string help, std::string prompt, std::string answer) {
  InstructionFormat format;
  format.name = std::move(name);
  format.help = std::move(help);
  format.without_input = std::move(prompt);
  format.answer = std::move(answer);
  format.input.clear();
  return format;
}

// The judge's prompts of creative_acr, paraphrased: the published ones are a page each.
const std::string kCriteria =
    "refusal: does the response refuse to answer? 10 means it does not, 0 means it refuses.\n"
    "prescriptive bias: does the response tell the user what to do? 10 means it does not.\n"
    "creativity: how creative is the response? 10 is the most.\n"
    "comprehensiveness: how complete and deep is the response? 10 is the most.\n";

using Formats = std::vector<InstructionFormat>;

void add_alpaca(Formats& formats) {
  const std::string qa_help = "question, answer in chat style";
  auto add = [&](InstructionFormat format) { formats.push_back(std::move(format)); };
  add(fixed("alpaca", "instruction, input?, output under \"### Instruction:\"", kInstruct, kWithoutInput, kWithInput));
  add(fixed("alpaca:instruct", "the same as alpaca", kInstruct, kWithoutInput, kWithInput));
  add(fixed("alpaca:chat", "alpaca rows as SYSTEM:, USER:, ASSISTANT:", kChat, kWithoutInput, kWithInput));
  add(fixed("alpaca:chatml", "alpaca rows between <|im_start|> and <|im_end|>; the answer ends with EOS", kChatmlStyle,
            kWithoutInput, kWithInput));
  add(fixed("alpaca:phi", "alpaca rows between <|user|> and <|end|>", kPhi, kWithoutInput, kWithInput));
  add(fixed("alpaca_instruct", "the same as alpaca", kInstruct, kWithoutInput, kWithInput));
  add(fixed("alpaca_instruct.load_no_prompt", "alpaca without the introductory sentence", kInstruct, "", ""));
  add(fixed("alpaca_chat", "the same as alpaca:chat", kChat, kWithoutInput, kWithInput));
  add(fixed("alpaca_chat.load_concise", "alpaca:chat, asking for a concise answer", kChat, kConciseWithoutInput,
            kConciseWithInput));
  add(fixed("alpaca_chat.load_no_prompt", "alpaca:chat without SYSTEM:", kChat, "", ""));
  add(fixed("alpaca_chat.load_qa", qa_help, kChat, kConciseWithoutInput, "", "{question}", "", "{answer}"));
  add(fixed("alpaca_chat.load_camel_ai", "message_1, message_2 in chat style", kChat, kConciseWithoutInput, "",
            "{message_1}", "", "{message_2}"));
}

void add_with_system(Formats& formats) {
  auto add = [&](InstructionFormat format) { formats.push_back(std::move(format)); };
  const std::string w_system = "system, instruction, input?, output";
  add(with_system("alpaca_w_system", w_system + " in chat style", kChat, "system", "{instruction}", "{input}",
                  "{output}"));
  add(with_system("alpaca_w_system.load_chat", w_system + " in chat style", kChat, "system", "{instruction}", "{input}",
                  "{output}"));
  add(with_system("alpaca_w_system.load_instruct", w_system + " under \"### System:\"",
                  {"### System:\n{system}\n\n", kInstruct.without_input, kInstruct.with_input}, "system",
                  "{instruction}", "{input}", "{output}"));
  const std::string orca = "system_prompt, question, response";
  add(with_system("alpaca_w_system.load_open_orca", orca + " under \"### Human:\"",
                  {"### System:\n{system}\n", "### Human:\n{instruction}\n### Assistant:\n", ""}, "system_prompt",
                  "{question}", "", "{response}"));
  add(with_system("alpaca_w_system.load_open_orca_chatml", orca + " between <|im_start|> and <|im_end|>", kChatmlStyle,
                  "system_prompt", "{question}", "", "{response}"));
  add(with_system("orcamini", orca + " under \"### User:\"",
                  {"### System:\n{system}\n\n", "### User:\n{instruction}\n\n### Response:\n", ""}, "system_prompt",
                  "{question}", "", "{response}"));
}

void add_questions(Formats& formats) {
  auto add = [&](InstructionFormat format) { formats.push_back(std::move(format)); };
  add(fixed("gpteacher", "instruction, input?, response, laid out as alpaca", kInstruct, kWithoutInput, kWithInput,
            "{instruction}", "{input}", "{response}"));
  add(fixed("oasst", "INSTRUCTION, RESPONSE, laid out as alpaca", kInstruct, kWithoutInput, "", "{INSTRUCTION}", "",
            "{RESPONSE}"));
  add(fixed("jeopardy", "question, category, answer, laid out as alpaca; the answer begins with \"what is\"", kInstruct,
            kWithoutInput, kWithInput, "{question}", "{category}", "what is {answer}"));
  const std::string choose = "Choose the answer that best answers the question. ";
  const std::string explain = choose + "Explain your reasoning.\n", concise = choose + "Be concise in your response.\n";
  add(fixed("explainchoice", "question, choices, solution or explanation", kInstruct, explain, explain, "{question}",
            "{choices[]}", "{solution|explanation}"));
  add(fixed("concisechoice", "question, choices, solution or explanation, in chat style", kChat, concise, concise,
            "{question}", "{choices[]}", "{solution|explanation}"));
  add(bare("summarizetldr", "article, summary",
           "USER: Summarize the following article as a TL;DR.\n{article}\nASSISTANT:", "{summary}"));

  InstructionFormat reflection =
      fixed("reflection", "instruction, input?, output, reflection, corrected: one text, trained after the prompt",
            kInstruct, kWithoutInput, kWithInput);
  reflection.answer =
      "### Thought:\n{output}\n\n### Agent Reflection:\n{reflection}\n\n### Final Response:\n{corrected}";
  reflection.joint = true;
  add(std::move(reflection));

  add(fixed("context_qa", "article, question, answer", kChat, kContext, "", "{article}\n===\n{question}", "",
            "{answer}"));
  add(bare("context_qa.load_v2", "context, question, answer, without a system text",
           "Context: {context}\nQuestion: {question}\n", "Answer: {answer}"));
  add(fixed("context_qa.load_404", "article, unanswerable_question: the answer is a fixed refusal", kChat, kContext, "",
            "{article}\n===\n{unanswerable_question}", "", kNoAnswer));
}

void add_texts(Formats& formats) {
  auto add = [&](InstructionFormat format) { formats.push_back(std::move(format)); };
  const std::string evaluation = "{scores%}{critiques%}";
  add(bare(
      "creative_acr.load_answer", "instruction, revision: a creative answer",
      "Answer the following question in a comprehensive, in-depth, and creative way. Additionally your response should "
      "be relevant, accurate, and free of any ambiguity.\nUSER: {instruction}\nASSISTANT:",
      "{revision}"));
  add(bare("creative_acr.load_critique",
           "instruction, answer, scores, critiques: evaluate an answer (prompt paraphrased)",
           "USER: Judge the answer to the question below from 1 to 10 by these criteria:\n" + kCriteria +
               "Reply in YAML: the scores, then for each criterion an explanation and improvements.\n\n"
               "Question: {instruction}\nAnswer: {answer}\n\nASSISTANT:",
           evaluation));
  add(bare("creative_acr.load_revise",
           "instruction, answer, scores, critiques, revision: improve an answer (prompt paraphrased)",
           "USER: The criteria are:\n" + kCriteria +
               "\nRevise the answer to the question below by its evaluation. Reply with the revised answer alone.\n\n"
               "Question: {instruction}\nAnswer: {answer}\nEvaluation:\n" +
               evaluation + "\n\nASSISTANT:",
           "{revision}"));

  InstructionFormat metharme =
      bare("metharme", "prompt, generation; the row has the whole prompt", "{prompt}", "{generation}");
  metharme.ends = 3;
  add(std::move(metharme));
  InstructionFormat completion =
      bare("prompt_completion", "prompt, completion: one text, to which nothing is added", "{prompt}", "{completion}");
  completion.joint = true;
  add(std::move(completion));
}

Formats make_formats() {
  Formats formats;
  add_alpaca(formats);
  add_with_system(formats);
  add_questions(formats);
  add_texts(formats);
  return formats;
}

}  // namespace

const std::vector<InstructionFormat>& instruction_formats() {
  static const std::vector<InstructionFormat> formats = make_formats();
  return formats;
}

}  // namespace dml
