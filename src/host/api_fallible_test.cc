// pie:plus/fallible and pie:plus/bidding: a guest's mistake is an error that it can handle.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "host/api.h"
#include "host/api_testing.h"

namespace pie::host {
namespace {

using ApiFallibleTest = ApiTest;

TEST_F(ApiFallibleTest, MessagesThatAreTooLong) {
  const std::string big(engine_->limits().max_message_bytes + 1, 'x');
  const std::string error = "a message has at most 16 MiB, this one has 16777217 bytes";
  EXPECT_EQ(ErrorOf(FalliblePush(*process_, "t", big)), error);
  EXPECT_EQ(ErrorOf(FallibleBroadcast(*process_, "t", big)), error);
  Wait wait{};
  EXPECT_EQ(ErrorOf(FallibleSend(*process_, big, wait)), error);
  EXPECT_EQ(ErrorOf(FallibleSendFile(*process_, big, wait)), error);
  EXPECT_EQ(wait.signal, nullptr);
}

TEST_F(ApiFallibleTest, AFullQueue) {
  for (size_t i = 0; i < engine_->limits().max_queued_messages; ++i) {
    Ok(FalliblePush(*process_, "t", "x"));
  }
  EXPECT_EQ(ErrorOf(FalliblePush(*process_, "t", "x")),
            "the queue is full: 4096 messages, 4 KiB wait to be read");
  const uint32_t letter = Ok(FalliblePull(*process_, "t"));
  EXPECT_EQ(Ok(FutureStringGet(*process_, letter)), "x");
  Ok(FalliblePush(*process_, "t", "x"));
}

TEST_F(ApiFallibleTest, TopicsThatAreTooLong) {
  const std::string topic(2'000, 't');
  const std::string error = "a topic's name has at most 1024 bytes, this one has 2000";
  EXPECT_EQ(ErrorOf(FalliblePull(*process_, topic)), error);
  EXPECT_EQ(ErrorOf(FallibleSubscribe(*process_, topic)), error);
}

TEST_F(ApiFallibleTest, PagesThatAreNotThere) {
  EXPECT_EQ(ErrorOf(FallibleReleaseWorkingPages(*process_, context_, 5)),
            "cannot release 5 working pages: the context has 4");
  EXPECT_EQ(ErrorOf(FallibleTruncateWorkingPageTokens(*process_, context_, 1)),
            "cannot truncate 1 tokens: the context holds 0");
  Ok(FallibleReleaseWorkingPages(*process_, context_, 4));
}

TEST_F(ApiFallibleTest, ToolsAndText) {
  const uint32_t decoder = Ok(FallibleCreateToolDecoder(*process_, model_));
  Ok(ToolUseDecoderDrop(*process_, decoder));
  const uint32_t tokenizer = Ok(ModelTokenizer(*process_, model_));
  EXPECT_EQ(Ok(FallibleEncode(*process_, tokenizer, "a")), std::vector<uint32_t>{'a'});
}

TEST_F(ApiFallibleTest, BidsThatAreNone) {
  EXPECT_EQ(ErrorOf(BiddingOnce(*process_, context_, -1)),
            "a bid must be a number of credits, 0 or more, not -1");
  EXPECT_EQ(ErrorOf(ContextBid(*process_, context_, -1)),
            "a bid must be a number of credits, 0 or more, not -1");
  EXPECT_EQ(ErrorOf(BiddingExpect(*process_, context_, -2, 0)),
            "the expected steps must be a number, 0 or more, not -2");
  EXPECT_EQ(ErrorOf(BiddingExpect(*process_, context_, 2, std::nan(""))),
            "the variation must be a number, 0 or more, not nan");
  Ok(BiddingExpect(*process_, context_, 64, 1));
  Ok(BiddingExpect(*process_, context_, std::nullopt, 1));
  Ok(BiddingOnce(*process_, context_, 2.5));
  Ok(BiddingIdle(*process_, context_, true));
  Ok(ContextDestroy(*process_, context_));
  EXPECT_FALSE(BiddingIdle(*process_, context_, false));
}

}  // namespace
}  // namespace pie::host
