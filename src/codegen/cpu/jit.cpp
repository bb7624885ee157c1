// One LLJIT for the process; a module a batch; four cheap passes, then code generation.
#include "codegen/cpu/jit.h"

#include <dlfcn.h>

#include <map>

#include <llvm/ExecutionEngine/Orc/CompileUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>

#include "codegen/cpu/emit_kernel.h"
#include "codegen/cpu/vector_math.h"

namespace firesteel::cpu {
namespace {

using llvm::Expected;

// This LLVM is linked into the library and hidden there, so its global options are ours alone.
void set_llvm_options() {
  const char* arguments[] = {"firesteel", "-disable-lsr"};
  llvm::cl::ParseCommandLineOptions(std::size(arguments), arguments);
}

// SLEEF is where torch has it: a library that is loaded already.
void* torch_library() { return dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD); }

llvm::Error define_outside_functions(llvm::orc::LLJIT& jit) {
  llvm::orc::SymbolMap symbols;
  auto define = [&](const std::string& name, void* library) {
    if (void* address = dlsym(library, name.c_str())) {
      symbols[jit.mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(address),
                                            llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
    }
  };
  if (void* torch = torch_library()) {
    for (const std::string& name : sleef_names()) define(name, torch);
  }
  for (const std::string& name : libm_names()) define(name, RTLD_DEFAULT);
  for (const char* name : {"memset", "memcpy", "memmove"}) define(name, RTLD_DEFAULT);
  return jit.getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols)));
}

Expected<std::unique_ptr<llvm::orc::LLJIT>> make_jit() {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  set_llvm_options();
  auto jit = llvm::orc::LLJITBuilder().create();
  if (!jit) return jit.takeError();
  if (llvm::Error error = define_outside_functions(**jit)) return error;
  return jit;
}

Expected<std::unique_ptr<llvm::TargetMachine>> make_machine(Target target) {
  auto builder = llvm::orc::JITTargetMachineBuilder::detectHost();
  if (!builder) return builder.takeError();
  builder->getFeatures() = llvm::SubtargetFeatures();  // what the named machine has and no more
  builder->setCPU(llvm_cpu_name(target));
  builder->setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
  return builder->createTargetMachine();
}

void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager passes;
  const char* pipeline = "function(early-cse,instcombine<no-verify-fixpoint>,loop-mssa(licm),early-cse)";
  if (llvm::Error error = builder.parsePassPipeline(passes, pipeline)) {
    llvm::consumeError(std::move(error));  // unoptimised code is right too
    return;
  }
  passes.run(module, modules);
}

class Jit {
 public:
  explicit Jit(std::unique_ptr<llvm::orc::LLJIT> jit) : jit_(std::move(jit)) {}

  Expected<std::vector<KernelFunction>> compile(std::span<const LoopKernel* const> kernels, Target target) {
    auto& machine = machines_[target];
    if (!machine) {
      auto made = make_machine(target);
      if (!made) return made.takeError();
      machine = std::move(*made);
    }
    llvm::LLVMContext context;
    llvm::Module module("firesteel_" + std::to_string(batch_), context);
    module.setDataLayout(machine->createDataLayout());
    module.setTargetTriple(machine->getTargetTriple().str());
    std::vector<std::string> names;
    for (const LoopKernel* kernel : kernels) {
      names.push_back("firesteel_kernel_" + std::to_string(batch_) + "_" + std::to_string(names.size()));
      emit_kernel(*kernel, names.back(), target, module);
    }
    ++batch_;
    std::string broken;
    llvm::raw_string_ostream text(broken);
    if (llvm::verifyModule(module, &text)) return llvm::createStringError(llvm::inconvertibleErrorCode(), broken);
    optimize(module, *machine);
    auto object = llvm::orc::SimpleCompiler(*machine)(module);
    if (!object) return object.takeError();
    if (llvm::Error error = jit_->addObjectFile(std::move(*object))) return error;
    std::vector<KernelFunction> functions;
    for (const std::string& name : names) {
      auto address = jit_->lookup(name);
      if (!address) return address.takeError();
      functions.push_back(address->toPtr<KernelFunction>());
    }
    return functions;
  }

 private:
  std::unique_ptr<llvm::orc::LLJIT> jit_;
  std::map<Target, std::unique_ptr<llvm::TargetMachine>> machines_;
  int batch_ = 0;
};

}  // namespace

std::vector<KernelFunction> compile_batch(std::span<const LoopKernel* const> kernels, Target target, std::string& why) {
  // Never destroyed: kernels may run while the process ends.
  static auto* jit = new Expected<std::unique_ptr<llvm::orc::LLJIT>>(make_jit());
  static Jit* compiler = *jit ? new Jit(std::move(**jit)) : nullptr;
  if (!compiler) {
    why = "LLVM's JIT cannot start";
    return std::vector<KernelFunction>(kernels.size(), nullptr);
  }
  auto functions = compiler->compile(kernels, target);
  if (functions) return std::move(*functions);
  why = llvm::toString(functions.takeError());
  return std::vector<KernelFunction>(kernels.size(), nullptr);
}

}  // namespace firesteel::cpu
