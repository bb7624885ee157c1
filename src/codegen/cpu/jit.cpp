// One LLJIT for the process; an object a kernel, from disk where it was made before: five cheap passes, then code.
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
#include "codegen/cpu/object_cache.h"
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
  // Constants lie beside the code and are read in place. A JIT's own choice, addresses of 64 bits, costs a register
  // each.
  builder->setRelocationModel(llvm::Reloc::PIC_);
  builder->setCodeModel(llvm::CodeModel::Small);
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
  const char* pipeline = "function(mem2reg,early-cse,instcombine<no-verify-fixpoint>,loop-mssa(licm),early-cse)";
  if (llvm::Error error = builder.parsePassPipeline(passes, pipeline)) {
    llvm::consumeError(std::move(error));  // unoptimised code is right too
    return;
  }
  passes.run(module, modules);
}

constexpr const char* kName = "firesteel_kernel";

class Jit {
 public:
  explicit Jit(std::unique_ptr<llvm::orc::LLJIT> jit) : jit_(std::move(jit)) {}

  // Machine code of one kernel, as an object file that holds a function of that name.
  Expected<std::unique_ptr<llvm::MemoryBuffer>> compile(const LoopKernel& kernel, Target target) {
    auto& machine = machines_[target];
    if (!machine) {
      auto made = make_machine(target);
      if (!made) return made.takeError();
      machine = std::move(*made);
    }
    llvm::LLVMContext context;
    llvm::Module module(kName, context);
    module.setDataLayout(machine->createDataLayout());
    module.setTargetTriple(machine->getTargetTriple().str());
    emit_kernel(kernel, kName, target, module);
    std::string broken;
    llvm::raw_string_ostream text(broken);
    if (llvm::verifyModule(module, &text)) return llvm::createStringError(llvm::inconvertibleErrorCode(), broken);
    optimize(module, *machine);
    return llvm::orc::SimpleCompiler(*machine)(module);
  }

  // Into the process. Each object is a library of its own, so that all may use the same name.
  Expected<KernelFunction> link(std::unique_ptr<llvm::MemoryBuffer> object) {
    llvm::orc::JITDylib& library = jit_->getExecutionSession().createBareJITDylib("kernel" + std::to_string(++linked_));
    library.addToLinkOrder(jit_->getMainJITDylib());
    if (llvm::Error error = jit_->addObjectFile(library, std::move(object))) return error;
    auto address = jit_->lookup(library, kName);
    if (!address) return address.takeError();
    return address->toPtr<KernelFunction>();
  }

 private:
  std::unique_ptr<llvm::orc::LLJIT> jit_;
  std::map<Target, std::unique_ptr<llvm::TargetMachine>> machines_;
  int linked_ = 0;
};

}  // namespace

KernelFunction make_kernel(const LoopKernel& kernel, Target target, MadeBy& by, std::string& why) {
  // Never destroyed: kernels may run while the process ends.
  static auto* jit = new Expected<std::unique_ptr<llvm::orc::LLJIT>>(make_jit());
  static Jit* compiler = *jit ? new Jit(std::move(**jit)) : nullptr;
  if (!compiler) {
    why = "LLVM's JIT cannot start";
    return nullptr;
  }
  const ObjectCache cache = ObjectCache::at_hand();
  const std::string key = std::string(target_text(target)) + "\n" + kernel.str();
  if (auto object = cache.load(key)) {
    auto function = compiler->link(std::move(object));
    by = MadeBy::Cache;
    if (function) return *function;
    llvm::consumeError(function.takeError());  // whole, and yet of no use: made again
  }
  by = MadeBy::Compiler;
  auto object = compiler->compile(kernel, target);
  if (!object) {
    why = llvm::toString(object.takeError());
    return nullptr;
  }
  cache.store(key, (*object)->getBuffer());
  auto function = compiler->link(std::move(*object));
  if (function) return *function;
  why = llvm::toString(function.takeError());
  return nullptr;
}

}  // namespace firesteel::cpu
